"""Filters of a batch query tell within which bounds its records lie. Pure, but for Spark's classes.

Rules: a filter that is not understood narrows nothing; bounds only ever get narrower, and hold for
every record that the filters let through. NOT and comparisons with null are not understood.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pyspark_oncelog.offsets import SourcePartition

OFFSET_END = 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017


class Bounds:
    """The wanted records lie within these bounds."""

    def __init__(self) -> None:
        self.topics: frozenset[str] | None = None
        self.partitions: frozenset[int] | None = None
        self.partition_low, self.partition_high = 0, 2**31
        self.offset_low, self.offset_high = 0, OFFSET_END
        self.timestamp_ms: int | None = None
        """Nothing is wanted that is older; milliseconds since 1970."""

    def wants(self, partition: SourcePartition) -> bool:
        """Return whether records of ``partition`` may be wanted."""
        topic, number = partition
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or number in self.partitions)
            and self.partition_low <= number < self.partition_high
        )

    def take(self, each: Filter) -> None:
        """Make the bounds narrower by one more filter that all records fulfil."""
        attribute: Any = getattr(each, "attribute", ())
        if len(attribute) != 1:
            return
        name = str(attribute[0])
        value: Any = getattr(each, "value", None)
        if isinstance(each, In):
            values = [item for item in value if item is not None]
            if all(_comparable(name, item) for item in values) and name != "timestamp":
                self._among(name, values)
        elif not _comparable(name, value):
            return
        elif isinstance(each, EqualTo | EqualNullSafe):
            if name == "timestamp":
                self._at_least(name, value)
            else:
                self._among(name, [value])
        elif name == "topic":
            return
        elif isinstance(each, GreaterThanOrEqual):
            self._at_least(name, value)
        elif isinstance(each, GreaterThan):
            # A later microsecond may be of the same millisecond.
            self._at_least(name, value if name == "timestamp" else value + 1)
        elif isinstance(each, LessThan):
            self._below(name, value)
        elif isinstance(each, LessThanOrEqual) and name != "timestamp":
            self._below(name, value + 1)

    def _among(self, name: str, values: list[Any]) -> None:
        chosen = frozenset(values)
        if name == "topic":
            self.topics = chosen if self.topics is None else self.topics & chosen
        elif name == "partition":
            self.partitions = chosen if self.partitions is None else self.partitions & chosen
        else:
            self._at_least(name, min(values, default=OFFSET_END))
            self._below(name, max(values, default=-1) + 1)

    def _at_least(self, name: str, value: Any) -> None:
        if name == "offset":
            self.offset_low = max(self.offset_low, value)
        elif name == "partition":
            self.partition_low = max(self.partition_low, value)
        elif name == "timestamp":
            self.timestamp_ms = max(self.timestamp_ms or 0, _milliseconds(value))

    def _below(self, name: str, value: Any) -> None:
        if name == "offset":
            self.offset_high = min(self.offset_high, value)
        elif name == "partition":
            self.partition_high = min(self.partition_high, value)


def _comparable(name: str, value: object) -> bool:
    """Return whether comparing the column with the value can narrow anything."""
    if name in ("offset", "partition"):
        return type(value) is int
    if name == "timestamp":
        return isinstance(value, datetime) and value.tzinfo is not None
    return name == "topic" and isinstance(value, str)


def _milliseconds(moment: datetime) -> int:
    """Return the milliseconds since 1970, rounded down."""
    return max((moment - EPOCH) // timedelta(milliseconds=1), 0)
