"""Log lines with names and fields, and repetitions of them."""

from __future__ import annotations

import logging

import pytest

from oncelog_runtime.logs import (
    SUBJECTS_MAX,
    Event,
    Overdue,
    Repetitions,
    Subject,
    fields_of,
    get_logger,
)

MOVED = Event("topic_moved", "%s moved from %d to %d", "topic before after")
QUIET = Event("all_quiet", "all is 100% quiet")


def test_an_event_is_its_text(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("oncelog_runtime.test")
    with caplog.at_level(logging.INFO):
        logger.debug(MOVED, "a", 1, 2)
        logger.info(MOVED, "a", 1, 2)
        logger.info(QUIET)
    first, second = caplog.records
    assert first.getMessage() == "a moved from 1 to 2"
    assert second.getMessage() == "all is 100% quiet"
    assert fields_of(first.msg, first.args) == {"topic": "a", "before": 1, "after": 2}
    assert fields_of(second.msg, second.args) == {}
    assert first.funcName == "test_an_event_is_its_text"


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_levels_are_those_of_the_methods(level: str, caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("oncelog_runtime.test")
    with caplog.at_level(logging.DEBUG):
        getattr(logger, level)(QUIET)
        logger.log(logging.getLevelName(level.upper()), QUIET)
    assert [r.levelname for r in caplog.records] == [level.upper()] * 2
    assert {r.funcName for r in caplog.records} == {"test_levels_are_those_of_the_methods"}


def test_exceptions_come_along(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("oncelog_runtime.test")
    error = ValueError("why")
    logger.error(QUIET, exc_info=error)
    try:
        raise error
    except ValueError:
        logger.exception(QUIET)
    assert [r.exc_info[1] if r.exc_info else None for r in caplog.records] == [error, error]


def test_a_single_mapping_is_one_value(caplog: pytest.LogCaptureFixture) -> None:
    event = Event("things_seen", "seen: %s", "things")
    get_logger("oncelog_runtime.test").warning(event, {"a": 1})
    record = caplog.records[0]
    assert record.getMessage() == "seen: {'a': 1}"
    assert fields_of(record.msg, record.args) == {"things": {"a": 1}}
    assert Subject.of(record).about == ""


def test_lines_of_libraries_have_no_fields() -> None:
    record = logging.LogRecord("lib", logging.INFO, "", 0, "%s of %s", ("a", "b"), None)
    assert fields_of(record.msg, record.args) == {}
    assert Subject.of(record) == ("lib", logging.INFO, "%s of %s", "")


def test_the_subject_is_what_the_line_is_about_and_nothing_else() -> None:
    event = Event("shard_loaded", "%s: %s in %d s, %s", "coordinator partition seconds member")
    values = ("groups", "t-1", 3, "m-17")
    record = logging.LogRecord("l", logging.INFO, "", 0, event, values, None)
    assert Subject.of(record) == ("l", logging.INFO, "shard_loaded", "t-1 groups")


def subject(about: str, event: Event = MOVED) -> Subject:
    return Subject.of(logging.LogRecord("t", 20, "", 0, event, (about, 1, 2), None))


def test_so_many_pass_in_an_interval() -> None:
    repetitions = Repetitions(2, 10.0)
    assert [repetitions.passes(subject("a"), at) for at in (0, 1, 2, 3)] == [
        True,
        True,
        False,
        False,
    ]
    assert repetitions.passes(subject("b"), 3), "another thing has its own count"
    assert repetitions.passes(subject("a", QUIET), 3)
    assert repetitions.overdue(9.9) == []
    assert repetitions.overdue(10.0) == [Overdue(subject("a"), 2)]
    assert repetitions.passes(subject("a"), 10.0), "a new interval"
    assert repetitions.overdue(10.0) == []


def test_nothing_is_left_out_without_a_limit() -> None:
    repetitions = Repetitions(0, 10.0)
    assert all(repetitions.passes(subject("a"), 0) for _ in range(100))
    assert repetitions.rest() == []


def test_memory_is_bounded() -> None:
    repetitions = Repetitions(1, 10.0)
    for number in range(SUBJECTS_MAX + 5):
        repetitions.overdue(0)
        assert repetitions.passes(subject(str(number)), 0)
    assert not repetitions.passes(subject(str(SUBJECTS_MAX)), 0)
    repetitions.overdue(0)
    assert repetitions.passes(subject("0"), 0), "the oldest is forgotten"
    assert repetitions.rest() == [Overdue(subject(str(SUBJECTS_MAX)), 1)]
    assert repetitions.rest() == []
