"""Single options are read here: numbers, durations, JSON of partitions, where to begin. Pure.

Rules: a value that cannot be understood raises :class:`OptionError` with the option's name as it is
documented, the value, and what would do. Keys of options come in lower case, as Spark gives them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

EARLIEST, LATEST = -2, -1
"""Kafka's numbers for the first and the last offset, where one is to be found."""

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
_UNITS_MS = {
    "ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000, "min": 60_000,
    "minute": 60_000, "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000,
}  # fmt: skip
_DURATION = re.compile(r"\s*(\d{1,12})\s*([a-z]*)\s*", re.ASCII)

PointKind = Literal["earliest", "latest", "offsets", "timestamp", "timestamps"]
PerPartition = Mapping[str, Mapping[int, int]]


class OptionError(ValueError):
    """An option has a wrong value, is missing, or may not be given here; the text says the remedy.

    Spark shows it as the failure of ``load()`` or ``start()``."""


@dataclass(frozen=True)
class OffsetPoint:
    """A point says where reading begins or ends, before anybody asked the cluster.

    ``offsets``: per topic and partition an offset, or -2 or -1; or a time, by ``kind``.
    """

    kind: PointKind
    offsets: PerPartition = field(default_factory=dict)
    timestamp_ms: int = 0


def parse_bool(name: str, text: str) -> bool:
    """Parse ``true`` or ``false``, in any case."""
    lowered = text.strip().lower()
    if lowered not in (*_TRUE, *_FALSE):
        raise OptionError(f"{name}={text!r}: must be true or false")
    return lowered in _TRUE


def parse_count(name: str, text: str, low: int = 1, high: int = 2**63 - 1) -> int:
    """Parse an integer in a range."""
    cleaned = text.strip()
    digits = cleaned.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or not low <= int(cleaned) <= high:
        raise OptionError(f"{name}={text!r}: must be an integer from {low} on")
    return int(cleaned)


def parse_duration_ms(name: str, text: str) -> int:
    """Parse ``15m``, ``500ms``, ``2 hours``; a bare number is milliseconds."""
    found = _DURATION.fullmatch(text.lower())
    unit = (found.group(2) or "ms") if found else ""
    scale = _UNITS_MS.get(unit) or _UNITS_MS.get(unit.removesuffix("s"))
    if found is None or scale is None:
        raise OptionError(f"{name}={text!r}: must be a duration such as 15m, 30s or 500ms")
    return int(found.group(1)) * scale


def parse_choice(name: str, text: str, choices: tuple[str, ...]) -> str:
    """Parse one of some words, in any case."""
    lowered = text.strip().lower()
    if lowered not in choices:
        raise OptionError(f"{name}={text!r}: must be one of {', '.join(choices)}")
    return lowered


def parse_names(name: str, text: str) -> tuple[str, ...]:
    """Parse names with commas between them, each once."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise OptionError(f"{name}={text!r}: must name at least one topic")
    return names


def parse_pattern(name: str, text: str) -> str:
    """Parse a regular expression that compiles; whole names must match it."""
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"{name}={text!r}: is not a regular expression: {error}") from None
    return text


def parse_assignment(name: str, text: str) -> dict[str, tuple[int, ...]]:
    """Parse ``{"orders": [0, 1]}``."""
    parsed = _json_object(name, text, '{"orders": [0, 1]}')
    for topic, numbers in parsed.items():
        good = isinstance(numbers, list) and numbers and all(_is_count(n) for n in numbers)
        if not good:
            raise OptionError(f"{name}: partitions of {topic!r} must be a list such as [0, 1]")
    return {topic: tuple(sorted(set(numbers))) for topic, numbers in sorted(parsed.items())}


def parse_offsets(name: str, text: str) -> OffsetPoint:
    """Parse ``earliest``, ``latest``, or ``{"orders": {"0": 23, "1": -2}}``.

    What a query's progress shows as an offset, which names topic ids too, is taken as well.
    """
    word = text.strip().lower()
    if word == "earliest":
        return OffsetPoint("earliest")
    if word == "latest":
        return OffsetPoint("latest")
    example = 'earliest, latest, or JSON such as {"orders": {"0": 23, "1": -2}}'
    parsed = _json_object(name, text, example)
    if isinstance(parsed.get("topics"), dict) and "version" in parsed:
        parsed = {topic: entry.get("offsets") for topic, entry in parsed["topics"].items()}
    offsets = _per_partition(name, parsed)
    for topic, numbers in offsets.items():
        for partition, offset in numbers.items():
            if offset < EARLIEST:
                raise OptionError(f"{name}: {topic}-{partition}: {offset} is no offset")
    return OffsetPoint("offsets", offsets)


def parse_timestamps(name: str, text: str) -> OffsetPoint:
    """Parse ``{"orders": {"0": 1700000000000}}``: milliseconds since 1970 for each partition."""
    parsed = _json_object(name, text, '{"orders": {"0": 1700000000000}}')
    times = _per_partition(name, parsed)
    if any(time < 0 for numbers in times.values() for time in numbers.values()):
        raise OptionError(f"{name}={text!r}: times are milliseconds since 1970")
    return OffsetPoint("timestamps", times)


def _per_partition(name: str, parsed: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for topic, numbers in sorted(parsed.items()):
        if not isinstance(numbers, dict) or not numbers:
            raise OptionError(f'{name}: {topic!r} must have partitions, such as {{"0": 23}}')
        for key, value in numbers.items():
            if not (key.isascii() and key.isdecimal()) or type(value) is not int:
                raise OptionError(f"{name}: {topic!r}: {key!r}: {value!r} are no two integers")
        found[topic] = {int(key): value for key, value in sorted(numbers.items())}
    return found


def _json_object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or not parsed:
        raise OptionError(f"{name}={text!r:.200}: must be {example}")
    return parsed


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
