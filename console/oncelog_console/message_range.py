"""An address says which records a page of messages shows, and so does a command. Pure.

``p``
    ``all``, or numbers of partitions: ``0,3``.
``from``
    ``beginning``, ``newest:50`` (so many offsets of each partition, before ``to``), ``offset:120``,
    or ``time:2026-11-21T12:00:00Z``.
``to``
    ``end``, ``offset:`` or ``time:`` alike, or an offset of each partition: ``offsets:0=981,3=17``.
    What lies there is not shown any more.
``where``
    A filter expression.
``n``, ``isolation``
    So many rows at most; ``committed``, or ``all``.

An address without an end gets one before anything is shown, and an expression loses its ``now``:
the same address shows the same records later, to others too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from oncelog.config import IsolationOption
from oncelog_cli.internal_records import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncelog_cli.offset_range import OFFSET_MAX, Base, RangePoint, parse_time
from oncelog_cli.where.parser import parse_where
from oncelog_cli.where.tree import text_of
from oncelog_console.look import iso

ROWS = 50
ROWS_MAX = 500
NEWEST_MAX = 1_000_000_000
PARTITION_MAX = 2**31 - 1
ISOLATIONS = ("committed", "all")
BEGINNING = RangePoint(Base.START)
NEWEST = RangePoint(Base.END, -ROWS)


PLACES_MAX = 200
"""An address names an end in each partition for so many at most: heads of requests have limits."""


@dataclass(frozen=True, slots=True)
class Places:
    """It is an end in each of some partitions; others are not meant."""

    offsets: tuple[tuple[int, int], ...]
    """Pairs of a partition and the offset of what is not shown any more."""


class RangeError(ValueError):
    """A part of an address means nothing; the text says which, and what could stand there."""


@dataclass(frozen=True, slots=True)
class WantedRecords:
    """These records of a topic are wanted."""

    topic: str
    partitions: tuple[int, ...] = ()
    """None of them: all."""
    start: RangePoint = NEWEST
    end: RangePoint | Places | None = None
    """None: whatever the end is when somebody looks."""
    where: str = ""
    rows: int = ROWS
    isolation: str = "committed"

    @property
    def decodes(self) -> bool:
        """Return whether records are shown, and searched, as what coordinators wrote in them."""
        return self.topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)

    @property
    def level(self) -> IsolationOption:
        """Return the isolation level of who reads it."""
        return "read_committed" if self.isolation == "committed" else "read_uncommitted"

    @property
    def newest_first(self) -> bool:
        """Return whether the newest rows stand at the top."""
        return self.start.base is Base.END

    def absolute(self, now_ms: int, ends: Mapping[int, int]) -> WantedRecords:
        """Return what is wanted now, said so that it is the same at any later time.

        :param ends: where each partition ends now; where there are too many, it is a time.
        :raises WhereError: the expression is none.
        """
        end = self.end
        if end is None:
            named = Places(tuple(sorted(ends.items())))
            last_ms = max(now_ms, self.start.number) if self.start.base is Base.TIME else now_ms
            end = named if 0 < len(ends) <= PLACES_MAX else RangePoint(Base.TIME, last_ms)
        tree = parse_where(self.where, now_ms) if self.where else None
        if tree is None or tree == parse_where(self.where, now_ms + 1):
            return replace(self, end=end)
        return replace(self, end=end, where=text_of(tree))

    def behind(self, ends: Mapping[int, int]) -> int:
        """Return how many offsets lie behind the ends that were the last ones once, by now.

        :param ends: where partitions end now, as far as that is known.
        """
        if not isinstance(self.end, Places):
            return 0
        return sum(max(0, ends.get(number, 0) - offset) for number, offset in self.end.offsets)

    def end_in(self, partition: int) -> RangePoint | None:
        """Return where the range ends in a partition; None: at its end, whatever that is.

        :raises LookupError: the partition is not meant.
        """
        if isinstance(self.end, Places):
            return RangePoint(Base.ZERO, dict(self.end.offsets)[partition])
        return self.end

    def with_more(self) -> WantedRecords | None:
        """Return this with twice as many rows; None: no page has more."""
        rows = min(2 * self.rows, ROWS_MAX)
        return replace(self, rows=rows) if rows > self.rows else None

    def beside(self, shown: Sequence[tuple[int, int, int]]) -> WantedRecords | None:
        """Return what lies next to these rows: older records, or later ones; None: it is not known.

        :param shown: partition, offset and timestamp of each row, in the order of the page.
        """
        if len(shown) < self.rows:
            return None
        if not self.newest_first:
            partition, offset, timestamp = shown[-1]
            if len(self.partitions) == 1:
                return replace(self, start=RangePoint(Base.ZERO, offset + 1))
            return replace(self, start=RangePoint(Base.TIME, timestamp))
        if not isinstance(self.end, Places):
            return None
        ends = dict(self.end.offsets)
        for partition, offset, _ in shown:
            ends[partition] = min(ends[partition], offset)
        return replace(self, end=Places(tuple(sorted(ends.items()))))

    def query(self) -> str:
        """Return the part of an address that is behind the question mark."""
        pairs = {
            "p": ",".join(map(str, self.partitions)) or "all",
            "from": point_text(self.start),
            "to": "end" if self.end is None else point_text(self.end),
            "where": self.where,
            "n": str(self.rows),
            "isolation": self.isolation,
        }
        return urlencode({k: v for k, v in pairs.items() if v}, quote_via=quote, safe=":,=")

    def command(self) -> tuple[str, ...]:
        """Return the words of a command line that prints the same records, without ``oncelog``.

        A command cannot name ends in several partitions: then it prints up to what is the end when
        it runs.
        """
        words = ["consume", self.topic]
        partitions, end = self.partitions, "end"
        if isinstance(self.end, RangePoint):
            end = _bound(self.end)
        elif self.end is not None and len(self.end.offsets) == 1:
            ((number, offset),) = self.end.offsets
            partitions, end = (number,), str(offset)
        for number in partitions:
            words += ["--partition", str(number)]
        words += ["--offset", f"{_bound(self.start)}:{end}"]
        if self.where:
            words += ["--where", self.where]
        if self.isolation == "all":
            words += ["--isolation-level", "read_uncommitted"]
        if not self.newest_first:
            words += ["--number", str(self.rows)]
        if self.decodes:
            words.append("--decode")
        return (*words, "--json")


def wanted_of(topic: str, query: Mapping[str, str], now_ms: int) -> WantedRecords:
    """Return what an address wants of a topic; ``now_ms`` is what times without a date count from.

    The expression is not looked at.

    :raises RangeError: a part of it means nothing.
    """
    isolation = query.get("isolation") or "committed"
    if isolation not in ISOLATIONS:
        raise RangeError(f"isolation={isolation!r}: there are {' and '.join(ISOLATIONS)}")
    end_text = query.get("to", "").strip()
    end = None if end_text in ("", "end") else _end(end_text, now_ms)
    start_text = query.get("from", "").strip()
    start = _point("from", start_text, now_ms) if start_text else NEWEST
    if isinstance(end, RangePoint) and start.base is end.base and end.number < start.number:
        raise RangeError(f"from={start_text!r} is behind to={end_text!r}")
    return WantedRecords(
        topic,
        _partitions(query.get("p", "")),
        start,
        end,
        query.get("where", "").strip(),
        _count("n", query.get("n") or str(ROWS), ROWS_MAX, least=1),
        isolation,
    )


def _end(text: str, now_ms: int) -> RangePoint | Places:
    word, _, rest = text.partition(":")
    if word == "offsets":
        return _places(rest)
    point = _point("to", text, now_ms)
    if point.base in (Base.START, Base.END):
        raise RangeError(f"to={text!r}: an end is end, offset:N, offsets:P=N,P=N or time:...")
    return point


def _places(text: str) -> Places:
    found: dict[int, int] = {}
    for item in text.split(","):
        number, _, offset = item.partition("=")
        found[_count("to", number, PARTITION_MAX)] = _count("to", offset, OFFSET_MAX)
    if len(found) > PLACES_MAX:
        raise RangeError(f"to=offsets:... names more than {PLACES_MAX} partitions")
    return Places(tuple(sorted(found.items())))


def point_text(point: RangePoint | Places) -> str:
    """Return a place, or places, as addresses have it."""
    if isinstance(point, Places):
        return "offsets:" + ",".join(f"{number}={offset}" for number, offset in point.offsets)
    match point.base:
        case Base.START:
            return "beginning"
        case Base.END:
            return f"newest:{-point.number}"
        case Base.ZERO:
            return f"offset:{point.number}"
        case Base.TIME:
            return f"time:{iso(point.number)}"


def _bound(point: RangePoint) -> str:
    """Return a place as ``--offset`` has it."""
    match point.base:
        case Base.START:
            return "start"
        case Base.END | Base.ZERO:
            return str(point.number)
        case Base.TIME:
            return f"@{iso(point.number)}"


def _point(name: str, text: str, now_ms: int) -> RangePoint:
    word, colon, rest = text.partition(":")
    rest = rest.strip()
    if word == "beginning" and not colon:
        return BEGINNING
    if word == "newest" and rest:
        return RangePoint(Base.END, -_count(name, rest, NEWEST_MAX, least=1))
    if word == "offset" and rest:
        return RangePoint(Base.ZERO, _count(name, rest, OFFSET_MAX))
    if word == "time" and rest:
        moment = parse_time(rest, now_ms)
        if moment is not None and moment <= TIME_MS_MAX:
            return RangePoint(Base.TIME, moment)
    raise RangeError(
        f"{name}={text!r}: write beginning, newest:50, offset:120 or time:2026-11-21T12:00:00Z"
    )


TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: later ones cannot be written."""


def _partitions(text: str) -> tuple[int, ...]:
    items = [item.strip() for item in text.split(",") if item.strip()]
    if items in ([], ["all"]):
        return ()
    return tuple(sorted({_count("p", item, PARTITION_MAX) for item in items}))


def _count(name: str, text: str, most: int, least: int = 0) -> int:
    digits = re.sub(r"[,\u202f\s]", "", text)
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 20:
        raise RangeError(f"{name}={text!r} is no number")
    if not least <= int(digits) <= most:
        raise RangeError(f"{name}={text!r} is not between {least} and {most}")
    return int(digits)
