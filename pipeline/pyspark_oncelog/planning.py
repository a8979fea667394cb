"""What a micro-batch, or a batch query, reads: how much, in which pieces, and what is lost. Pure.

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from pyspark_oncelog.offsets import Partition


class DataLossError(Exception):
    """Records that were to be read are not in the log any more.

    With ``failOnDataLoss=false`` the query goes on behind them and logs a warning instead.
    """

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = tuple(losses)
        told = "; ".join(map(str, self.losses))
        super().__init__(f"{told}. If the query may go on without them, give failOnDataLoss=false")

    def __reduce__(self) -> tuple[type[DataLossError], tuple[tuple[Loss, ...]]]:
        return DataLossError, (self.losses,)


class Cause(Enum):
    """Why records are gone."""

    RETENTION = "retention has passed the query's position"
    RECREATED = "the topic was deleted and made again"
    DELETED = "the topic was deleted"
    TRUNCATED = "the log ends before the query's position (an unclean election)"


@dataclass(frozen=True, slots=True)
class Loss:
    """What is gone of one partition: the offsets from ``first`` up to, not including, ``end``."""

    partition: Partition
    cause: Cause
    first: int
    end: int
    note: str = ""

    def __str__(self) -> str:
        told = f"{self.partition}: offsets {self.first} to {self.end - 1} are lost"
        if self.end <= self.first:
            told = f"{self.partition}: what was to be read from offset {self.first} is lost"
        return f"{told}: {self.cause.value}{f' ({self.note})' if self.note else ''}"


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition, from ``start`` up to, not including, ``end``: one task's work."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; there may be fewer records."""
        return self.end - self.start

    @property
    def tp(self) -> Partition:
        """Whose offsets."""
        return Partition(self.topic, self.partition)


def limited(
    start: Mapping[Partition, int], latest: Mapping[Partition, int], offsets_max: int
) -> dict[Partition, int]:
    """Ends that lie at most about ``offsets_max`` offsets in all behind ``start``."""
    sizes = {tp: max(end - start[tp], 0) for tp, end in latest.items()}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(latest)
    ends: dict[Partition, int] = {}
    for tp, end in latest.items():
        share = sizes[tp] * offsets_max // total
        ends[tp] = min(start[tp] + max(share, 1), end) if sizes[tp] else end
    return ends


def enough(
    start: Mapping[Partition, int],
    latest: Mapping[Partition, int],
    offsets_min: int | None,
    waited_ms: float,
    delay_max_ms: int,
) -> bool:
    """Whether a micro-batch is worth its while: it has ``offsets_min`` offsets, or some, and the
    last one was so long ago."""
    count = sum(max(end - start[tp], 0) for tp, end in latest.items())
    if count == 0:
        return False
    return offsets_min is None or count >= offsets_min or waited_ms >= delay_max_ms


def split(
    spans: Iterable[Span], pieces_min: int | None = None, size_max: int | None = None
) -> list[Span]:
    """The spans in at least ``pieces_min`` pieces of at most ``size_max`` offsets each.

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
    """``missing`` more pieces, each where pieces would else be largest."""
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


def _cut(span: Span, count: int) -> list[Span]:
    marks = [span.start + span.size * number // count for number in range(count + 1)]
    return [
        Span(span.topic, span.topic_id, span.partition, low, high) for low, high in pairwise(marks)
    ]


def retention_losses(
    spans: Iterable[Span], earliest: Mapping[Partition, int]
) -> tuple[list[Span], list[Loss]]:
    """(what is left of the spans, what is lost of them) when the logs begin at ``earliest``."""
    left: list[Span] = []
    losses: list[Loss] = []
    for span in spans:
        begin = earliest.get(span.tp, span.start)
        if span.start < begin and span.size > 0:
            losses.append(
                Loss(
                    span.tp,
                    Cause.RETENTION,
                    span.start,
                    min(begin, span.end),
                    f"the log begins at offset {begin} now",
                )
            )
            span = Span(span.topic, span.topic_id, span.partition, min(begin, span.end), span.end)
        left.append(span)
    return left, losses


def tail_losses(
    spans: Iterable[Span], latest: Mapping[Partition, int]
) -> tuple[list[Span], list[Loss]]:
    """The same when the logs end at ``latest``: a range that was planned, and logged, is gone."""
    left: list[Span] = []
    losses: list[Loss] = []
    for span in spans:
        end = latest.get(span.tp, span.end)
        if span.end > end and span.size > 0:
            note = f"the log ends at offset {end} now"
            first = max(span.start, end)
            losses.append(Loss(span.tp, Cause.TRUNCATED, first, span.end, note))
            span = Span(span.topic, span.topic_id, span.partition, min(span.start, end), end)
        left.append(span)
    return left, losses
