"""The last events of a broker are kept, in order and without gaps in their numbers."""

from __future__ import annotations

import json
import logging
import tomllib

from oncelog_broker.logging import record_events
from oncelog_broker.server.event_history import (
    EVENT_NAMES,
    VALUE_CHARS_MAX,
    EventHistory,
)
from support.happened import happened
from support.house import ROOT

LARGE = 1_000_000


def test_every_name_is_that_of_a_log_line() -> None:
    known = tomllib.loads((ROOT / "docs/log_events.toml").read_text())
    assert known.keys() >= EVENT_NAMES


def test_events_are_kept_and_other_lines_are_not() -> None:
    history = EventHistory(5)
    history.add(happened("isr_changed", 1_500, partition="t-0", before=[1, 2], after=[1]))
    history.add(happened("connection_lost", 1_600))
    history.add(logging.LogRecord("x", logging.INFO, __file__, 1, "isr_changed", None, None))
    history.add(happened("log_dir_offline", 1_700, logging.ERROR, error=OSError("disk")))
    page = history.page(0, None, 10, LARGE)
    assert (page.first_sequence, page.next_sequence, page.more) == (0, 2, False)
    first, second = page.events
    assert (first.sequence, first.timestamp_ms, first.level) == (0, 1_500, "info")
    told = {field.name: json.loads(field.value) for field in first.fields}
    assert told == {"partition": "t-0", "before": [1, 2], "after": [1]}
    assert (second.sequence, second.name, second.level) == (1, "log_dir_offline", "error")
    assert json.loads(second.fields[0].value) == "OSError: disk"


def test_the_oldest_go_first() -> None:
    history = EventHistory(5, 3)
    assert history.page(0, None, 10, LARGE).next_sequence == 0
    for number in range(5):
        history.add(happened("topic_created", number))
    page = history.page(0, None, 10, LARGE)
    assert (page.first_sequence, page.next_sequence) == (2, 5)
    assert [event.sequence for event in page.events] == [2, 3, 4]
    page = history.page(5, None, 10, LARGE)
    assert (page.events, page.next_sequence, page.more) == ([], 5, False)


def test_pages() -> None:
    history = EventHistory(5)
    for number in range(6):
        history.add(happened("topic_created" if number % 2 else "topic_deleted", topic="t" * 98))
    page = history.page(0, None, 4, LARGE)
    assert ([e.sequence for e in page.events], page.next_sequence, page.more) == (
        [0, 1, 2, 3],
        4,
        True,
    )
    page = history.page(0, {"topic_created"}, 2, LARGE)
    assert ([e.sequence for e in page.events], page.next_sequence, page.more) == ([1, 3], 5, True)
    page = history.page(page.next_sequence, {"topic_created"}, 2, LARGE)
    assert ([e.sequence for e in page.events], page.next_sequence, page.more) == ([5], 6, False)
    page = history.page(0, None, 10, 250)
    assert [e.sequence for e in page.events] == [0, 1], "by the length of what they say"
    page = history.page(2, None, 10, 1)
    assert [e.sequence for e in page.events] == [2], "one at least"


def test_a_long_value_is_cut() -> None:
    history = EventHistory(5)
    history.add(happened("group_generation_began", members=["member"] * 10_000))
    (event,) = history.page(0, None, 10, LARGE).events
    (field,) = event.fields
    assert len(field.value) <= VALUE_CHARS_MAX
    assert json.loads(field.value).startswith('["member", "member"')


def test_records_come_from_the_log() -> None:
    history = EventHistory(5)
    logger = logging.getLogger("oncelog_broker.test")
    forget = record_events(history)
    logger.handle(happened("leader_began"))
    forget()
    logger.handle(happened("leader_changed"))
    assert [event.name for event in history.page(0, None, 10, LARGE).events] == ["leader_began"]
