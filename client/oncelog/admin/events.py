"""The admin client asks brokers what has happened at them lately.

Each broker keeps its last 4,096 log lines of some fifty names (``isr_changed``, ``leader_changed``,
``controller_elected`` ...), with their fields, until it ends. The names are those of its log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, BrokerError, broker_error
from oncelog.core.coordinators import attempt_deadline
from oncelog.core.router import Failure
from oncelog.errors import error_for
from oncelog_protocol.messages.events import DescribeEventsRequest, DescribeEventsResponse


class EventPosition(NamedTuple):
    """It is a place in the events of one broker, whose life began at ``started_ms``."""

    started_ms: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened at a broker; ``timestamp_ms`` is by its wall clock, in ms since 1970."""

    broker_id: int
    sequence: int
    """Events of one life of a broker are numbered without gaps."""
    timestamp_ms: int
    level: str
    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerEvents:
    """One broker told these events, the oldest first, or has an ``error``."""

    broker_id: int
    error: BrokerError | None = None
    events: tuple[Event, ...] = ()
    position: EventPosition | None = None
    """Ask from here to hear what has happened since."""
    missed: int = 0
    """So many events from the position that was asked for were forgotten already."""


class EventAdmin(AdminCalls):
    """``Admin`` gets its calls about events from this class."""

    async def describe_events(
        self,
        brokers: Iterable[int] | None = None,
        *,
        names: Iterable[str] | None = None,
        since: Mapping[int, EventPosition] | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> list[BrokerEvents]:
        """Return what has happened at brokers (default: all), one entry a broker.

        A broker that does not answer, or is of a release without events, is an entry with its
        error. A broker that was started anew since tells all that it has.

        :param names: only events of these names.
        :param since: by broker, the ``position`` of an earlier answer.
        """
        deadline = self._deadline(timeout_ms)
        await self._router.refresh_now()
        ids = sorted(self._router.cluster.brokers) if brokers is None else list(brokers)
        wanted = None if names is None else list(names)
        places = since or {}
        return await asyncio.gather(
            *(self._events_of(each, wanted, places.get(each), deadline) for each in ids)
        )

    async def _events_of(
        self,
        broker_id: int,
        names: list[str] | None,
        since: EventPosition | None,
        deadline: float,
    ) -> BrokerEvents:
        place = since or EventPosition(-1, 0)
        events: list[Event] = []
        missed = 0
        while True:
            request = DescribeEventsRequest(place.started_ms, place.sequence, names)
            try:
                with self._explaining(request):
                    response: DescribeEventsResponse = await self._router.call_broker(
                        broker_id, request, attempt_deadline(deadline)
                    )
                    if response.error_code:
                        raise error_for(response.error_code, response.error_message or "")
            except Failure as error:
                return BrokerEvents(broker_id, broker_error(broker_id, error))
            if place.started_ms == response.started_ms:
                missed += max(response.first_sequence - place.sequence, 0)
            elif events:
                events, missed = [], 0  # it was started anew between two pages
            place = EventPosition(response.started_ms, response.next_sequence)
            events += [
                Event(
                    broker_id,
                    each.sequence,
                    each.timestamp_ms,
                    each.level,
                    each.name,
                    {item.name: json.loads(item.value) for item in each.fields},
                )
                for each in response.events
            ]
            if not response.more:
                return BrokerEvents(broker_id, None, tuple(events), place, missed)
