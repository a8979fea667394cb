"""[A23] and [A19]: watermarks go back, readers get too much; logs hold alarms."""

from __future__ import annotations

import logging

import pytest

from simulation.checkers import no_alarm_in_the_logs, watermarks_never_go_back
from simulation.checkers.no_alarm_in_the_logs import LogLine
from simulation.checkers.violation import Rules
from simulation.history import Watermark


def mark(
    high: int, *, epoch: int = 1, by: str = "c1", stable: int | None = None, end: int = -1
) -> Watermark:
    return Watermark(by, "x", 0, epoch, high, stable, end)


BAD_MARKS = {
    "it goes back": [mark(5), mark(7), mark(6)],
    "it goes back while others are seen": [mark(5), mark(9, epoch=2), mark(4)],
    "the last stable offset goes back": [mark(5, stable=4), mark(6, stable=3)],
    "stable is above committed": [mark(5, stable=6)],
    "records above it": [mark(5, end=6)],
    "records above the last stable offset": [mark(5, stable=3, end=4)],
}


@pytest.mark.parametrize("name", BAD_MARKS)
def test_wrong_watermarks_are_found(name: str) -> None:
    found = watermarks_never_go_back.check(BAD_MARKS[name], Rules())
    assert [(v.anomaly, v.partition) for v in found] == [("A23", ("x", 0))]


GOOD_MARKS = {
    "it grows or stays": [mark(0), mark(5), mark(5), mark(7, end=7)],
    "a new leader begins lower": [mark(5), mark(3, epoch=2), mark(6, epoch=2)],
    "answers to two clients overtake each other": [mark(5), mark(4, by="c2")],
    "an answer without records, behind the end of a new leader": [mark(3, end=-1)],
}


@pytest.mark.parametrize("name", GOOD_MARKS)
def test_right_watermarks_are_accepted(name: str) -> None:
    assert watermarks_never_go_back.check(GOOD_MARKS[name], Rules()) == []


def test_who_reads_uncommitted_reads_behind_the_last_stable_offset() -> None:
    marks = [mark(5, stable=3, end=5)]
    assert watermarks_never_go_back.check(marks, Rules(read_committed=False)) == []


BAD_LINES = {
    "an error": LogLine("broker-1", logging.ERROR, "the log is broken"),
    "a task that died": LogLine("broker-1", logging.ERROR, "Task failed", "KeyError: 'x'"),
    "a warning with an exception": LogLine("zk", logging.WARNING, "odd", "OSError: 5"),
    "critical": LogLine("broker-1", logging.CRITICAL, "stopping"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_alarms_are_found(name: str) -> None:
    rules = Rules(allowed_log_lines=("disk full",))
    found = no_alarm_in_the_logs.check([BAD_LINES[name]], rules)
    assert [v.anomaly for v in found] == ["A19"]
    assert BAD_LINES[name].text in str(found[0])


GOOD_LINES = {
    "a warning": LogLine("broker-1", logging.WARNING, "the leader is not answering"),
    "an error that the run explains": LogLine("broker-1", logging.ERROR, "cannot: disk full"),
    "an exception that the run explains": LogLine("c1", logging.ERROR, "Oh", "Error: disk full"),
    "detail": LogLine("broker-1", logging.DEBUG, "retry", "ConnectionResetError: 104"),
}


@pytest.mark.parametrize("name", GOOD_LINES)
def test_other_lines_are_accepted(name: str) -> None:
    rules = Rules(allowed_log_lines=("disk full",))
    assert no_alarm_in_the_logs.check([GOOD_LINES[name]], rules) == []


def test_lines_come_from_log_records() -> None:
    error = OSError(5, "no")
    info = (OSError, error, None)
    record = logging.LogRecord("name", logging.ERROR, "file", 1, "sync %d failed", (3,), info)
    line = LogLine.from_record("broker-2", record, 1.5)
    expected = LogLine("broker-2", logging.ERROR, "sync 3 failed", "OSError: [Errno 5] no", 1.5)
    assert line == expected
