"""A log line has a name, and fields that say the rest.

Rules:

- names are the same in every release and are never given to something else; each has a sentence
  that says what it means in ``docs/log_events.toml``, and always the same fields;
- lines with the same event that are about the same thing (the fields in ``ABOUT``) are repetitions
  of each other, whatever else they say.

Rooms of brokers log with ``structured_logging``. What clients import as well knows only the
standard library, and hands a :class:`LogEvent` to one of its loggers. How a process writes the
lines is its own affair (``oncelog_broker.logging``).
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

__all__ = ["LogEvent", "Overdue", "Repetitions", "Subject", "plain"]

ABOUT = (
    *("partition", "shard", "topic", "group", "transactional_id", "broker_id", "path", "log_dir"),
    *("listener", "coordinator", "request", "owner", "task"),
)
"""Fields that say what a line is about. Not members of groups, peers, producers: there is no end to
them, and what floods the log must not do so under ever new names."""

SUBJECTS_MAX = 2_000
"""Subjects whose lines are counted at a time; with more, the first of them begins anew."""

OVERDUE_MAX = 10
"""So many subjects are overdue at a time: a line is written of each, which holds the loop."""


class LogEvent(dict[str, Any]):
    """It is the message of a log record: its name under ``event``, and its fields.

    Whoever formats records in the usual way gets the readable ``name field=value``.
    """

    def __init__(self, event: str, /, **fields: Any) -> None:
        super().__init__(event=event, **fields)

    def __str__(self) -> str:
        fields = [f"{key}={_shown(plain(value))}" for key, value in self.items() if key != "event"]
        return " ".join([self["event"], *fields])


def plain(value: object) -> Any:
    """Return what JSON can say of a value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, list | tuple) and type(value).__str__ is object.__str__:
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(str(each) for each in value)
    return str(value) or repr(value)


def _shown(value: object) -> str:
    """Return a value as text; quotes show where a text of several words ends."""
    text = str(value)
    return (
        repr(text) if isinstance(value, str) and (not text or set(text) & set(" \n=\"'")) else text
    )


class Subject(NamedTuple):
    """A subject is what two records have in common when one repeats the other."""

    logger: str
    level: int
    event: str
    """Its name; of a line that has none, the text."""
    about: str

    @classmethod
    def of(cls, record: logging.LogRecord) -> Subject:
        """Return the subject of a record."""
        line = record.msg
        if not isinstance(line, LogEvent):
            return cls(record.name, record.levelno, str(line), "")
        about = " ".join(str(line[name]) for name in ABOUT if name in line)
        return cls(record.name, record.levelno, line["event"], about)


class Overdue(NamedTuple):
    """It stands for repetitions that were left out and that nobody has been told of."""

    subject: Subject
    suppressed: int


class Repetitions:
    """It lets at most so many lines about one subject pass in an interval, and counts what is left
    out.

    Pure: the time is given. The interval of a subject begins with the first line about it.
    """

    __slots__ = ("_counts", "_interval_s", "_most")

    def __init__(self, most: int, interval_s: float) -> None:
        """:param most: how many pass in an interval; 0: all."""
        self._most = most
        self._interval_s = interval_s
        # subject -> (when its interval began, how many passed, how many did not), oldest first
        self._counts: dict[Subject, tuple[float, int, int]] = {}

    def passes(self, subject: Subject, now_s: float) -> bool:
        """Return whether this one may be told. Take what is ``overdue`` first: it ends intervals,
        and forgets who is too many."""
        if self._most <= 0:
            return True
        began_s, passed, left_out = self._counts.get(subject, (now_s, 0, 0))
        if now_s - began_s >= self._interval_s:  # others before it were overdue
            del self._counts[subject]
            began_s, passed = now_s, 0
        if passed >= self._most:
            self._counts[subject] = (began_s, passed, left_out + 1)
            return False
        self._counts[subject] = (began_s, passed + 1, left_out)
        return True

    def overdue(self, now_s: float) -> list[Overdue]:
        """Return what was left out in intervals that are over; also the oldest, when there are too
        many subjects to remember. When they are ``OVERDUE_MAX``, there may be more."""
        found: list[Overdue] = []
        while self._counts and len(found) < OVERDUE_MAX:
            subject, (began_s, _, left_out) = next(iter(self._counts.items()))
            if len(self._counts) <= SUBJECTS_MAX and now_s - began_s < self._interval_s:
                break
            del self._counts[subject]
            if left_out:
                found.append(Overdue(subject, left_out))
        return found

    @property
    def pending(self) -> bool:
        """Return whether something was left out of which nobody has been told yet."""
        return any(left_out for _, _, left_out in self._counts.values())

    def rest(self) -> list[Overdue]:
        """Return what is still to be told at the end; everything is forgotten."""
        found = [Overdue(subject, n) for subject, (_, _, n) in self._counts.items() if n]
        self._counts.clear()
        return found
