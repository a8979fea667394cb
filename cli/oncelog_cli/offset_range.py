"""The grammar of ``--offset`` says which offsets of each partition ``consume`` prints.

A range is ``START``, ``START:END``, ``:END`` or ``START:``; a missing start is ``start``, a missing
end means to go on for ever. The record at the end is not part of the range. Both are one of::

    start, earliest   the first record there is
    end, latest       behind the last one, as it is when the command begins
    35                offset 35
    +10               as a start: ten offsets after the first; as an end: so many from the start on
    -10               ten offsets before the end; as a start: before that of the range, where it is
                      an offset or a time
    @1770000000000    the first record at or after that time (10 digits: seconds, 13: milliseconds)
    @2026-01-31T09    the same; without a zone the time is UTC
    @-1h30m           an hour and a half ago: d, h, m, s, ms; the sign may be left out

Offsets count from what the log holds when the command begins; a start below that is moved up to it,
one beyond its end is waited for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog import Consumer, TopicPartition

_DURATION = re.compile(r"-?(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000, 1)
_SECONDS_DIGITS = 10
_MILLISECONDS_DIGITS = 13
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OFFSET_MAX = 2**63 - 1


class Base(Enum):
    """The number of a point counts from one of these."""

    ZERO = "the beginning of the partition's history"
    START = "the first offset there is"
    END = "the end"
    TIME = "1970, in milliseconds"


@dataclass(frozen=True, slots=True)
class RangePoint:
    """A point is a place in a partition, before it is known what the partition holds."""

    base: Base
    number: int = 0


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A range has a start and an end; ``end`` None means for ever.

    A START-based end counts from the start of the range.
    """

    start: RangePoint
    end: RangePoint | None = None


FROM_BEGINNING = OffsetRange(RangePoint(Base.START))
FROM_END = OffsetRange(RangePoint(Base.END))


@dataclass(frozen=True, slots=True)
class HeldOffsets:
    """A partition holds offsets from ``start`` up to, but without, ``end``."""

    start: int
    end: int


def parse_range(text: str, now_ms: int) -> OffsetRange:
    """Parse the range that a person wrote; durations count back from ``now_ms``.

    :raises ValueError: it is none; the text says what is allowed.
    """
    whole = _parse_point(text, now_ms)
    if whole is not None:
        return OffsetRange(whole)
    # A time may hold colons itself: the range is cut where both sides make sense.
    for match in re.finditer(":", text):
        left, right = text[: match.start()], text[match.end() :]
        start = RangePoint(Base.START) if not left else _parse_point(left, now_ms)
        end = None if not right else _parse_point(right, now_ms)
        if start is None or (right and end is None):
            continue
        comparable = end is not None and start.base is end.base is not Base.START
        if comparable and end is not None and end.number < start.number:
            raise ValueError(f"{text!r}: the end is before the start")
        return OffsetRange(start, end)
    raise ValueError(
        f"{text!r} is not a range of offsets: START, START:END, START: or :END, where both are an "
        "offset, start, end, +N, -N, @TIME or @-DURATION (as in @-1h:end)"
    )


def _parse_point(text: str, now_ms: int) -> RangePoint | None:
    if text in ("start", "earliest"):
        return RangePoint(Base.START)
    if text in ("end", "latest"):
        return RangePoint(Base.END)
    if text.startswith("@"):
        timestamp = parse_time(text[1:], now_ms)
        return None if timestamp is None else RangePoint(Base.TIME, timestamp)
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not digits.isascii() or not digits.isdecimal() or int(digits) > OFFSET_MAX:
        return None
    number = int(digits)
    if sign == "+":
        return RangePoint(Base.START, number)
    return RangePoint(Base.END, -number) if sign else RangePoint(Base.ZERO, number)


def parse_time(text: str, now_ms: int) -> int | None:
    """Parse a time, or a duration back from ``now_ms``, into milliseconds since 1970.

    It returns None for a text that is neither.
    """
    if text.isascii() and text.isdecimal():
        if len(text) <= _SECONDS_DIGITS:
            return int(text) * 1000
        return int(text) if len(text) <= _MILLISECONDS_DIGITS else None
    duration_ms = parse_duration(text)
    if duration_ms is not None:
        return max(now_ms - duration_ms, 0)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # Whole numbers: a float of seconds loses the last millisecond of some times.
    return max((moment - _EPOCH) // timedelta(milliseconds=1), 0)


def parse_duration(text: str) -> int | None:
    """Parse ``1h30m`` into milliseconds; return None for a text that is not a duration."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    parts = zip(found.groups(), _UNITS_MS, strict=True)
    return sum(int(count) * unit for count, unit in parts if count)


def resolve_start(point: RangePoint, held: HeldOffsets, found: int | None) -> int:
    """Return the first offset to print.

    ``found`` is the offset that was found for a time; None means that no record is that new.
    """
    match point.base:
        case Base.ZERO:
            return max(point.number, held.start)
        case Base.START:
            return min(held.start + point.number, OFFSET_MAX)
        case Base.END:
            return max(held.end + point.number, held.start)
        case Base.TIME:
            return held.end if found is None else found


def span_of(
    wanted: OffsetRange, held: HeldOffsets, found_start: int | None, found_end: int | None
) -> tuple[int, int | None]:
    """Return where a range begins in a partition, and where it ends; None: it does not.

    ``found_start`` and ``found_end`` are the offsets that were found for times.
    """
    end = wanted.end
    if wanted.start.base is Base.END and end is not None and end.base in (Base.ZERO, Base.TIME):
        last = resolve_end(end, held.start, held, found_end)
        held = HeldOffsets(held.start, min(last, held.end))
    start = resolve_start(wanted.start, held, found_start)
    return start, None if end is None else resolve_end(end, start, held, found_end)


def resolve_end(point: RangePoint, start: int, held: HeldOffsets, found: int | None) -> int:
    """Return the offset to stop before, for a range that begins at ``start``."""
    match point.base:
        case Base.ZERO:
            return point.number
        case Base.START:
            return min(start + point.number, OFFSET_MAX)
        case Base.END:
            return held.end + point.number
        case Base.TIME:
            return held.end if found is None else found


async def offsets_at(
    consumer: Consumer, partitions: Sequence[TopicPartition], point: RangePoint | None
) -> dict[TopicPartition, int]:
    """Ask for the offset of each partition at a point that is a time, if a record is that new."""
    if point is None or point.base is not Base.TIME:
        return {}
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, point.number))
    return {tp: answer.offset for tp, answer in found.items() if answer is not None}
