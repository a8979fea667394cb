"""A log line has a name, a text for people, and fields for programs.

Rules:

- a room declares what it logs in its ``logged.py``: one :class:`Event` each, with the text that
  people read and the names of its fields. Events may be added, and their texts and fields changed
  with a note in the change log; a name is never given to something else;
- lines with the same event that are about the same thing (the fields in ``ABOUT``) are repetitions
  of each other, whatever else they say;
- an event *is* its text, a template of the standard library: whoever formats records in the usual
  way gets a readable line. A formatter that knows more asks ``fields_of``.

How a process writes the lines is its own affair (``oncelog_broker.logging``).
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple, Self

__all__ = [
    "Event",
    "EventLogger",
    "ExcInfo",
    "Overdue",
    "Repetitions",
    "Subject",
    "fields_of",
    "get_logger",
]

ABOUT = (
    *("partition", "shard", "topic", "group", "transactional_id", "broker_id", "path", "log_dir"),
    *("listener", "coordinator", "request", "owner", "task"),
)
"""Fields that say what a line is about. Not members of groups, peers, producers: there is no end to
them, and what floods the log must not do so under ever new names."""

ExcInfo = bool | BaseException | None
"""An exception that belongs to a line; True: the one that is being handled."""

SUBJECTS_MAX = 2_000
"""Subjects whose lines are counted at a time; with more, the first of them begins anew."""


class Event(str):
    """An event is the kind of a log line. As a string it is the text, with a place for each
    field."""

    __slots__ = ("fields", "name")
    name: str
    """The name in snake case, the same in every release."""
    fields: tuple[str, ...]

    def __new__(cls, name: str, text: str, fields: str = "") -> Self:
        """:param fields: names, with blanks between, in the order of the text's places."""
        event = super().__new__(cls, text)
        event.name = name
        event.fields = tuple(fields.split())
        return event


class EventLogger:
    """It is a logger of the standard library that takes declared events only."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    @property
    def plain(self) -> logging.Logger:
        """Return the standard library's logger, for a library that wants to be given one."""
        return self._logger

    def debug(self, event: Event, *values: object, exc_info: ExcInfo = None) -> None:
        """Log for whoever looks for a fault. Costs little where nobody does."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.log(logging.DEBUG, event, *values, exc_info=exc_info, stacklevel=2)

    def info(self, event: Event, *values: object, exc_info: ExcInfo = None) -> None:
        """Log that something changed which operators may want to know."""
        self._logger.log(logging.INFO, event, *values, exc_info=exc_info, stacklevel=2)

    def warning(self, event: Event, *values: object, exc_info: ExcInfo = None) -> None:
        """Something is wrong that the program goes on with."""
        self._logger.log(logging.WARNING, event, *values, exc_info=exc_info, stacklevel=2)

    def error(self, event: Event, *values: object, exc_info: ExcInfo = None) -> None:
        """Something is wrong that the program cannot mend."""
        self._logger.log(logging.ERROR, event, *values, exc_info=exc_info, stacklevel=2)

    def exception(self, event: Event, *values: object) -> None:
        """Log a defect as an error, with the exception that is being handled."""
        self._logger.log(logging.ERROR, event, *values, exc_info=True, stacklevel=2)

    def critical(self, event: Event, *values: object, exc_info: ExcInfo = None) -> None:
        """Log what must never be."""
        self._logger.log(logging.CRITICAL, event, *values, exc_info=exc_info, stacklevel=2)

    def log(self, level: int, event: Event, *values: object, exc_info: ExcInfo = None) -> None:
        """Log at a level that depends."""
        self._logger.log(level, event, *values, exc_info=exc_info, stacklevel=2)


def get_logger(name: str) -> EventLogger:
    """Return the logger of a module."""
    return EventLogger(name)


def fields_of(message: object, args: object) -> dict[str, Any]:
    """Return the fields of a record by name, from its ``msg`` and ``args``; none where it is no
    event."""
    if not isinstance(message, Event):
        return {}
    return dict(zip(message.fields, _values(args), strict=False))


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
        if not isinstance(record.msg, Event):
            return cls(record.name, record.levelno, str(record.msg), "")
        fields = fields_of(record.msg, record.args)
        about = " ".join(str(fields[name]) for name in ABOUT if name in fields)
        return cls(record.name, record.levelno, record.msg.name, about)


def _values(args: object) -> tuple[object, ...]:
    """A record has one mapping as it is, and everything else in a tuple."""
    if isinstance(args, tuple):
        return args
    return () if args is None else (args,)


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
        """Return whether this one may be told. Take what is ``overdue`` first: it ends
        intervals."""
        if self._most <= 0:
            return True
        began_s, passed, left_out = self._counts.get(subject, (now_s, 0, 0))
        if passed >= self._most:
            self._counts[subject] = (began_s, passed, left_out + 1)
            return False
        self._counts[subject] = (began_s, passed + 1, left_out)
        return True

    def overdue(self, now_s: float) -> list[Overdue]:
        """Return what was left out in intervals that are over; also the oldest, when there are too
        many subjects to remember."""
        found: list[Overdue] = []
        while self._counts:
            subject, (began_s, _, left_out) = next(iter(self._counts.items()))
            if len(self._counts) <= SUBJECTS_MAX and now_s - began_s < self._interval_s:
                break
            del self._counts[subject]
            if left_out:
                found.append(Overdue(subject, left_out))
        return found

    def rest(self) -> list[Overdue]:
        """Return what is still to be told at the end; everything is forgotten."""
        found = [Overdue(subject, n) for subject, (_, _, n) in self._counts.items() if n]
        self._counts.clear()
        return found
