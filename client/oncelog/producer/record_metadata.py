"""Metadata say where acknowledged records are: one record, or a list of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class RecordMetadata(NamedTuple):
    """An acknowledged record is there. ``offset`` is -1 with ``acks=0``: nobody was asked."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class WrittenRange(NamedTuple):
    """A batch was acknowledged: row ``rows[i]`` has offset ``base_offset + i``.

    ``rows`` are positions in the list that was sent, in order.
    """

    partition: int
    base_offset: int
    rows: Sequence[int]


class BatchMetadata(NamedTuple):
    """The records of one ``send_many`` were written at these places."""

    topic: str
    ranges: tuple[WrittenRange, ...]

    @property
    def record_count(self) -> int:
        """Return the number of acknowledged records."""
        return sum(len(written.rows) for written in self.ranges)

    def positions(self) -> Iterator[tuple[int, int, int]]:
        """Yield (row, partition, offset) of each record, batch by batch."""
        for partition, base_offset, rows in self.ranges:
            for index, row in enumerate(rows):
                yield row, partition, (base_offset + index if base_offset >= 0 else -1)
