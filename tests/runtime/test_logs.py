"""Log lines have names and fields, and may be repetitions."""

from __future__ import annotations

import logging
from typing import NamedTuple

from oncelog_runtime.logs import OVERDUE_MAX, SUBJECTS_MAX, LogEvent, Overdue, Repetitions, Subject


class Named(NamedTuple):
    """The value has words of its own."""

    topic: str

    def __str__(self) -> str:
        return f"topic {self.topic}"


def test_a_line_reads_as_its_name_and_fields() -> None:
    error = ValueError("it is late")
    line = LogEvent("topic_moved", topic=Named("a"), before={1}, after=(error, ""), because="")
    assert str(line) == (
        "topic_moved topic='topic a' before=['1'] after=['ValueError: it is late', ''] because=''"
    )
    assert (str(LogEvent("all_quiet")), line["before"]) == ("all_quiet", {1})


def test_lines_of_libraries_are_their_text() -> None:
    record = logging.LogRecord("lib", logging.INFO, "", 0, "%s of %s", ("a", "b"), None)
    assert Subject.of(record) == ("lib", logging.INFO, "%s of %s", "")


def test_the_subject_is_what_the_line_is_about_and_nothing_else() -> None:
    event = LogEvent(
        "shard_loaded", coordinator="groups", partition="t-1", seconds=3, member="m-17"
    )
    record = logging.LogRecord("l", logging.INFO, "", 0, event, None, None)
    assert Subject.of(record) == ("l", logging.INFO, "shard_loaded", "t-1 groups")


def subject(about: str, event: str = "topic_moved") -> Subject:
    line = LogEvent(event, topic=about, before=1, after=2)
    return Subject.of(logging.LogRecord("t", 20, "", 0, line, None, None))


def test_so_many_pass_in_an_interval() -> None:
    repetitions = Repetitions(2, 10.0)
    assert [repetitions.passes(subject("a"), at) for at in (0, 1, 2, 3)] == [
        True,
        True,
        False,
        False,
    ]
    assert repetitions.passes(subject("b"), 3), "another thing has its own count"
    assert repetitions.passes(subject("a", "all_quiet"), 3)
    assert repetitions.overdue(9.9) == []
    assert repetitions.overdue(10.0) == [Overdue(subject("a"), 2)]
    assert repetitions.passes(subject("a"), 10.0), "a new interval"
    assert repetitions.overdue(10.0) == []


def test_so_many_are_overdue_at_a_time_and_those_that_wait_end_their_intervals() -> None:
    repetitions = Repetitions(1, 10.0)
    everything = [subject(str(number)) for number in range(2 * OVERDUE_MAX + 1)]
    for each in everything * 2:
        repetitions.passes(each, 0)
    last = everything[-1]
    assert repetitions.overdue(10.0) == [Overdue(each, 1) for each in everything[:OVERDUE_MAX]]
    assert repetitions.passes(last, 10.0), "its interval is over, though it was not told of"
    assert not repetitions.passes(last, 10.0)
    told = repetitions.overdue(10.0)
    assert told == [Overdue(each, 1) for each in everything[OVERDUE_MAX:-1]]
    assert repetitions.overdue(19.9) == []
    assert repetitions.overdue(20.0) == [Overdue(last, 2)], "both intervals are told of"


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
