"""The few records of a page are read here, in the console itself: without an expression.

Rules: of each partition no more is read than a page may show, whatever the range; a page waits for
some seconds at most and shows what has come. Not too many are read at a time.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace

from oncelog import Record, TopicPartition
from oncelog.consumer.markers import TransactionMarker
from oncelog.errors import DeadlineExceededError
from oncelog_cli.offset_range import Base, RangePoint
from oncelog_console.clients import ClusterClients
from oncelog_console.message_range import WantedRecords
from oncelog_console.reading import Reading, ReadProgress, Row

AT_ONCE = 6
PATIENCE_S = 8.0
FEW_PARTITIONS = 16
"""From so many partitions a page may read as many records each as it shows."""


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page shows these rows."""

    rows: tuple[Row, ...]
    progress: ReadProgress
    per_partition: int
    """So many of each partition were read at most."""
    is_whole: bool
    """Whether all that was asked had come in time."""


class Browsing:
    """It reads for the pages of one console."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def browse(
        self, clients: ClusterClients, wanted: WantedRecords, partitions: int
    ) -> Browsed:
        """Return the first, or the newest, rows of a range.

        :param partitions: so many partitions the range is in.
        :raises OncelogError: the cluster does not answer, or refuses.
        :raises CommandError: there is no such partition.
        """
        each = per_partition(wanted.rows, partitions)
        rows: list[Row] = []
        reading = Reading(_nearest(wanted, each), clients.consumer, per_partition=each)
        is_whole = False
        async with self._gate, reading:
            try:
                async with asyncio.timeout(self._patience_s):
                    async for found in reading.found():
                        rows += found.rows(decodes=wanted.decodes)
                    is_whole = True
            except TimeoutError:
                pass
        return Browsed(chosen(rows, wanted), reading.progress, each, is_whole)

    async def one(
        self, clients: ClusterClients, partition: TopicPartition, offset: int
    ) -> tuple[Record | TransactionMarker, str] | None:
        """Return what is at an offset, and what became of it; None: nothing is there.

        :raises OncelogError: the cluster does not answer, or refuses.
        :raises CommandError: there is no such partition.
        """
        wanted = WantedRecords(
            partition.topic,
            (partition.partition,),
            RangePoint(Base.ZERO, offset),
            RangePoint(Base.ZERO, offset + 1),
            isolation="all",
        )
        reading = Reading(wanted, clients.consumer)
        async with self._gate, reading:
            try:
                async with asyncio.timeout(self._patience_s), aclosing(reading.found()) as all_:
                    async for found in all_:
                        for record, state in zip(found.records, found.states, strict=True):
                            return record, state
                        for marker in found.markers:
                            if marker.offset == offset:
                                return marker, "COMMIT" if marker.committed else "ABORT"
            except TimeoutError:
                raise DeadlineExceededError(
                    f"{partition}: its leader has not sent offset {offset} in time"
                ) from None
        return None


def per_partition(rows: int, partitions: int) -> int:
    """Return how many records of each partition are read for so many rows."""
    return rows if partitions <= FEW_PARTITIONS else max(1, rows * FEW_PARTITIONS // partitions)


def _nearest(wanted: WantedRecords, each: int) -> WantedRecords:
    """Return the part of a range that can be shown: of the newest only so many."""
    if not wanted.newest_first:
        return wanted
    return replace(wanted, start=RangePoint(Base.END, max(wanted.start.number, -each)))


def chosen(rows: list[Row], wanted: WantedRecords) -> tuple[Row, ...]:
    """Return the rows that are shown, by time."""
    ordered = sorted(
        rows,
        key=lambda row: (row.timestamp, row.partition, row.offset),
        reverse=wanted.newest_first,
    )
    return tuple(ordered[: wanted.rows])
