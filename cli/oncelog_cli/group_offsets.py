"""Text is parsed here into partitions, times and offsets of groups. Pure.

Partitions are named as ``TOPIC`` (all that it has) or ``TOPIC:0,2``.

A duration is ISO 8601, ``P1DT2H``, ``PT30M``, or short, ``1d2h``, ``30m``; a time is ISO 8601,
``2026-01-31T09:00:00Z`` (UTC without a zone), or a number: 10 digits are seconds since 1970, 13
milliseconds.

A file of offsets is Kafka's CSV, without a heading: ``topic,partition,offset`` a line, or
``group,topic,partition,offset`` where lines of other groups are passed over. Empty lines and
those that begin with ``#`` are too.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass

from oncelog_cli.offset_range import OFFSET_MAX, parse_duration, parse_time

_ISO_DURATION = re.compile(
    r"P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,3}))?S)?)?"
)
_PARTITION_MAX = 2**31 - 1

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Whole topics and single partitions are chosen."""

    topics: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()

    def __contains__(self, partition: Partition) -> bool:
        return partition[0] in self.topics or partition in self.partitions


def parse_partitions(items: Iterable[str]) -> Chosen:
    """Parse the partitions that the ``--topic`` options name.

    :raises ValueError: one of them is not ``TOPIC`` or ``TOPIC:0,2``.
    """
    topics: dict[str, None] = {}
    partitions: dict[Partition, None] = {}
    for item in items:
        topic, colon, numbers = item.partition(":")
        if not topic or (colon and not numbers):
            raise ValueError(f"{item!r}: expected TOPIC or TOPIC:0,2")
        if not colon:
            topics[topic] = None
        for number in numbers.split(",") if colon else ():
            partitions[topic, _number(number.strip(), _PARTITION_MAX, item, "partition")] = None
    return Chosen(tuple(topics), tuple(partitions))


def partitions_text(partitions: Iterable[Partition]) -> str:
    """Return how partitions are named: ``TOPIC:0,2``, with spaces between the topics."""
    by_topic: dict[str, list[str]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(str(number))
    return " ".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items())


def duration_ms(text: str) -> int:
    """Parse a duration into milliseconds.

    :raises ValueError: it is none.
    """
    found = _ISO_DURATION.fullmatch(text)
    if found is not None:
        days, hours, minutes, seconds, fraction = found.groups()
        whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60
        return (whole + int(seconds or 0)) * 1000 + int((fraction or "").ljust(3, "0"))
    short = parse_duration(text)
    if short is None or text.startswith("-"):
        raise ValueError(f"{text!r} is not a duration: P1DT2H, PT30M, 1d2h or 30m")
    return short


def time_ms(text: str) -> int:
    """Parse a time into milliseconds since 1970.

    :raises ValueError: it is none.
    """
    found = None if parse_duration(text) is not None else parse_time(text, 0)
    if found is None:
        raise ValueError(
            f"{text!r} is not a time: 2026-01-31T09:00:00Z, or seconds (10 digits) or "
            "milliseconds (13 digits) since 1970"
        )
    return found


def read_csv(lines: Iterable[str], group: str) -> dict[Partition, int]:
    """Return the offsets that a file has for ``group``.

    :raises ValueError: naming the line that is no row, or that names a partition again.
    """
    found: dict[Partition, int] = {}
    for number, row in enumerate(csv.reader(lines), start=1):
        fields = [field.strip() for field in row]
        if not any(fields) or fields[0].startswith("#"):
            continue
        place = f"line {number}"
        if len(fields) == 4:
            if fields[0] != group:
                continue
            fields = fields[1:]
        if len(fields) != 3 or not fields[0]:
            raise ValueError(f"{place}: expected topic,partition,offset")
        partition = (fields[0], _number(fields[1], _PARTITION_MAX, place, "partition"))
        if partition in found:
            raise ValueError(f"{place}: {fields[0]} {partition[1]} for the second time")
        found[partition] = _number(fields[2], OFFSET_MAX, place, "offset")
    return found


def csv_line(topic: str, partition: int, offset: int) -> str:
    """Return one row of such a file; names of topics need no quotes."""
    return f"{topic},{partition},{offset}"


def _number(text: str, largest: int, place: str, what: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > largest:
        raise ValueError(f"{place}: {text!r} cannot be the {what}")
    return int(text)
