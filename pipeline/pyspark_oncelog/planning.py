"""This plans the pieces that a query or a micro-batch reads, and finds out what is lost. Pure.

Rules
-----
* A limit is shared by the partitions in proportion to what each has; every one that has something
  gets at least one record, so that none starves (as Spark's Kafka source does it).
* Gaps in the offsets are no loss: markers, aborted records and compaction leave them. A loss is
  what lies between where reading was to go on and where the log begins now (retention), or ends now
  (an unclean election), or everything, when the topic is another one.
* Pieces of one partition follow one another without gap or overlap.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise

from pyspark_oncelog.offsets import SourcePartition

logger = logging.getLogger(__name__)


class DataLossError(Exception):
    """Records that were to be read are not in the log any more.

    With ``failOnDataLoss=false`` the query goes on behind them and logs a warning instead.
    """

    def __init__(self, losses: Sequence[LostOffsets]) -> None:
        self.losses = tuple(losses)
        told = "; ".join(map(str, self.losses))
        super().__init__(f"{told}. If the query may go on without them, give failOnDataLoss=false")

    def __reduce__(self) -> tuple[type[DataLossError], tuple[tuple[LostOffsets, ...]]]:
        return DataLossError, (self.losses,)


class Cause(Enum):
    """Records are gone for one of these reasons."""

    RETENTION = "retention has passed the query's position"
    RECREATED = "the topic was deleted and made again"
    DELETED = "the topic was deleted"
    TRUNCATED = "the log ends before the query's position (an unclean election)"


@dataclass(frozen=True, slots=True)
class LostOffsets:
    """The offsets of one partition from ``first`` up to, not including, ``end`` are gone."""

    partition: SourcePartition
    cause: Cause
    first: int
    end: int
    note: str = ""

    def __str__(self) -> str:
        told = f"{self.partition}: offsets {self.first} to {self.end - 1} are lost"
        if self.end <= self.first:
            told = f"{self.partition}: what was to be read from offset {self.first} is lost"
        return f"{told}: {self.cause.value}{f' ({self.note})' if self.note else ''}"


def report(losses: Sequence[LostOffsets], *, fail: bool) -> None:
    """Log what is lost, or fail because of it.

    :raises DataLossError: something is lost, and ``fail``.
    """
    if losses and fail:
        raise DataLossError(losses)
    for loss in losses:
        logger.warning("%s", loss)


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """A span is one task's work: offsets of one partition from ``start`` to before ``end``."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Return how many offsets the span has; there may be fewer records."""
        return self.end - self.start

    @property
    def tp(self) -> SourcePartition:
        """Return the partition of the span."""
        return SourcePartition(self.topic, self.partition)


def limited(
    start: Mapping[SourcePartition, int], latest: Mapping[SourcePartition, int], offsets_max: int
) -> dict[SourcePartition, int]:
    """Return ends that lie at most about ``offsets_max`` offsets in all behind ``start``."""
    sizes = {tp: max(end - start[tp], 0) for tp, end in latest.items()}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(latest)
    ends: dict[SourcePartition, int] = {}
    for tp, end in latest.items():
        share = sizes[tp] * offsets_max // total
        ends[tp] = min(start[tp] + max(share, 1), end) if sizes[tp] else end
    return ends


def enough(
    start: Mapping[SourcePartition, int],
    latest: Mapping[SourcePartition, int],
    offsets_min: int | None,
    waited_ms: float,
    delay_max_ms: int,
) -> bool:
    """Return whether a micro-batch is worth its while.

    It has ``offsets_min`` offsets, or it has some and the last one was ``delay_max_ms`` ago.
    """
    count = sum(max(end - start[tp], 0) for tp, end in latest.items())
    if count == 0:
        return False
    return offsets_min is None or count >= offsets_min or waited_ms >= delay_max_ms


def split(
    spans: Iterable[OffsetSpan], pieces_min: int | None = None, size_max: int | None = None
) -> list[OffsetSpan]:
    """Cut the spans into at least ``pieces_min`` pieces of at most ``size_max`` offsets each.

    Large spans are cut first; no piece is empty, so there may be fewer than ``pieces_min``.
    """
    whole = [span for span in spans if span.size > 0]
    counts = [1 if size_max is None else -(-span.size // size_max) for span in whole]
    if pieces_min is not None:
        missing = pieces_min - sum(counts)
        if missing > 0:
            counts = _shared_out([span.size for span in whole], counts, missing)
    return [piece for span, count in zip(whole, counts, strict=True) for piece in _cut(span, count)]


def _shared_out(sizes: Sequence[int], counts: Sequence[int], missing: int) -> list[int]:
    """Return the counts with ``missing`` more pieces, each where pieces would else be largest."""
    import heapq

    result = list(counts)
    heap = [
        (-size / count, index)
        for index, (size, count) in enumerate(zip(sizes, counts, strict=True))
    ]
    heapq.heapify(heap)
    while missing and heap:
        _, index = heapq.heappop(heap)
        if result[index] >= sizes[index]:
            continue  # pieces of one offset already
        result[index] += 1
        missing -= 1
        heapq.heappush(heap, (-sizes[index] / result[index], index))
    return result


def _cut(span: OffsetSpan, count: int) -> list[OffsetSpan]:
    marks = [span.start + span.size * number // count for number in range(count + 1)]
    return [replace(span, start=low, end=high) for low, high in pairwise(marks)]


def retention_losses(
    spans: Iterable[OffsetSpan], earliest: Mapping[SourcePartition, int]
) -> tuple[list[OffsetSpan], list[LostOffsets]]:
    """Return what is left of the spans, and what is lost, when the logs begin at ``earliest``."""
    left: list[OffsetSpan] = []
    losses: list[LostOffsets] = []
    for span in spans:
        begin = earliest.get(span.tp, span.start)
        if span.start < begin and span.size > 0:
            note = f"the log begins at offset {begin} now"
            first = min(begin, span.end)
            losses.append(LostOffsets(span.tp, Cause.RETENTION, span.start, first, note))
            span = replace(span, start=first)
        left.append(span)
    return left, losses


def tail_losses(
    spans: Iterable[OffsetSpan], latest: Mapping[SourcePartition, int]
) -> tuple[list[OffsetSpan], list[LostOffsets]]:
    """Return what is left of the spans, and what is lost, when the logs end at ``latest``.

    A range that was planned, and logged, is gone then.
    """
    left: list[OffsetSpan] = []
    losses: list[LostOffsets] = []
    for span in spans:
        end = latest.get(span.tp, span.end)
        if span.end > end and span.size > 0:
            note = f"the log ends at offset {end} now"
            first = max(span.start, end)
            losses.append(LostOffsets(span.tp, Cause.TRUNCATED, first, span.end, note))
            span = replace(span, start=min(span.start, end), end=end)
        left.append(span)
    return left, losses
