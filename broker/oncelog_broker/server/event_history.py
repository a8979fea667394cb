"""A broker remembers its last log lines of lasting interest, for whoever asks what has happened.

Lines come from wherever they are logged, by a handler of the standard library's logging; what the
level of a logger leaves out does not come. Repetitions, which a log leaves out, are kept.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from oncelog_protocol.messages.events import BrokerEvent, EventField
from oncelog_runtime.logs import LogEvent, plain

EVENTS_MAX = 4096
VALUE_CHARS_MAX = 2_000
"""A longer value of a field is kept as a text that is cut."""

EVENT_NAMES = frozenset(
    {
        "broker_cleared",
        "broker_failed",
        "broker_registered",
        "broker_registers_again",
        "broker_serves",
        "broker_settings_changed",
        "broker_shuts_down",
        "broker_stopped",
        "broker_suspected",
        "brokers_changed",
        "clients_refused",
        "clients_served_again",
        "clock_leapt",
        "committed_records_truncated",
        "controlled_shutdown_incomplete",
        "controller_changed",
        "controller_deposed",
        "controller_elected",
        "controller_resigned",
        "coordinator_load_failed",
        "coordinator_loaded",
        "coordinator_resigned",
        "data_may_be_missing",
        "follower_began_anew",
        "follower_lost_records",
        "follower_truncated",
        "group_generation_began",
        "isr_changed",
        "leader_began",
        "leader_changed",
        "leader_without_room",
        "leaders_preferred",
        "log_damaged",
        "log_dir_full",
        "log_dir_has_room",
        "log_dir_offline",
        "members_lost_data",
        "partitions_without_replica",
        "replica_damaged",
        "replica_whole_again",
        "session_expired",
        "setting_changed",
        "stop_requested",
        "topic_created",
        "topic_deleted",
        "topic_grew",
        "transaction_aborted_by_hand",
        "transaction_timed_out",
        "unclean_election",
        "zookeeper_connected",
        "zookeeper_disconnected",
    }
)
"""Lines of these names are kept; ``docs/logs.md`` says what each means."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """It has some events of a history, and says where to go on. ``more``: there are others."""

    first_sequence: int
    next_sequence: int
    more: bool
    events: list[BrokerEvent]


class EventHistory:
    """It has the last events of one life of a broker.

    :param started_ms: it names the life, in ms since 1970.
    """

    def __init__(self, started_ms: int, count_max: int = EVENTS_MAX) -> None:
        self.started_ms = started_ms
        self._events: deque[BrokerEvent] = deque(maxlen=count_max)
        self._next_sequence = 0

    def add(self, record: logging.LogRecord) -> None:
        """Keep a log record if it is an event. One thread at a time may add."""
        line = record.msg
        if not isinstance(line, LogEvent) or line["event"] not in EVENT_NAMES:
            return
        self._events.append(
            BrokerEvent(
                self._next_sequence,
                int(record.created * 1000),
                record.levelname.lower(),
                line["event"],
                [EventField(key, _json(value)) for key, value in line.items() if key != "event"],
            )
        )
        self._next_sequence += 1

    def page(
        self, from_sequence: int, names: Collection[str] | None, count_max: int, chars_max: int
    ) -> EventPage:
        """Return events from a sequence number on, until there are so many, or their values have so
        many characters; at least one, if there is one."""
        # In one step: another thread may add.
        held = tuple(self._events)
        first = held[0].sequence if held else self._next_sequence
        after = held[-1].sequence + 1 if held else first
        found: list[BrokerEvent] = []
        chars = 0
        for event in held:
            if event.sequence < from_sequence or (names is not None and event.name not in names):
                continue
            chars += sum(len(each.value) for each in event.fields)
            if len(found) >= count_max or (found and chars > chars_max):
                return EventPage(first, event.sequence, True, found)
            found.append(event)
        return EventPage(first, after, False, found)


class EventRecorder(logging.Handler):
    """It hands the records of a process on to the history of its broker."""

    def __init__(self, history: EventHistory) -> None:
        super().__init__()
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``: called under its lock, from any thread."""
        self._history.add(record)


def _json(value: object) -> str:
    text = json.dumps(plain(value), ensure_ascii=False, default=str)
    return text if len(text) <= VALUE_CHARS_MAX else json.dumps(text[: VALUE_CHARS_MAX // 2] + "…")
