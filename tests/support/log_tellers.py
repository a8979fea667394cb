"""Scripted brokers tell of a log that is as regular as can be."""

from __future__ import annotations

from oncelog_protocol.messages.log_description import (
    AbortedRange,
    DescribedBatch,
    DescribedEpoch,
    DescribedSegment,
    DescribeLogRequest,
    DescribeLogResponse,
    IndexEntry,
)

__all__ = ["Teller"]

PER_BATCH = 2
PER_SEGMENT = 10
BATCH_BYTES = 100
INDEXED = 4
"""Every so many offsets of a segment there is an entry in its index."""


class Teller:
    """It has a log of so many offsets, and tells at most ``page`` segments at once. The last batch
    is the marker of a transaction that was aborted, if ``aborted``. If ``bare``, nothing is known
    of the newest segment."""

    def __init__(
        self,
        end: int,
        *,
        page: int = 500,
        leads: bool = True,
        aborted: bool = False,
        bare: bool = False,
    ) -> None:
        self.end, self.page, self.leads, self.aborted = end, page, leads, aborted
        self.bare = bare

    def __call__(self, request: DescribeLogRequest) -> DescribeLogResponse:
        bases = range(0, self.end, PER_SEGMENT)
        begun = [base for base in bases if base + PER_SEGMENT > request.from_offset]
        next_offset = begun[self.page] if len(begun) > self.page else -1
        told = [base for base in begun if next_offset < 0 or base < next_offset]
        at = request.at_offset if 0 <= request.at_offset < self.end else -1
        index = [] if at < 0 else self._index(at // PER_SEGMENT * PER_SEGMENT)
        batches = self._batches(request, index)
        after = batches[-1].last_offset + 1 if batches else self.end
        return DescribeLogResponse(
            topic=request.topic,
            partition=request.partition,
            leader_epoch=0,
            is_leader=self.leads,
            log_start_offset=0,
            last_stable_offset=self.end,
            high_watermark=self.end,
            synced_offset=self.end,
            log_end_offset=self.end,
            size_bytes=self.end // PER_BATCH * BATCH_BYTES,
            segments=[self._segment(base) for base in told],
            epochs=[DescribedEpoch(0, 0)],
            aborted=[AbortedRange(7, self.end - 4, self.end - 2)] if self.aborted else [],
            next_offset=next_offset,
            snapshots=[self.end],
            index=index,
            batches=batches,
            next_batch=after if after < self.end else -1,
        )

    def _segment(self, base: int) -> DescribedSegment:
        after = min(base + PER_SEGMENT, self.end)
        size = (after - base) // PER_BATCH * BATCH_BYTES
        if self.bare and after == self.end:
            return DescribedSegment(base, after, size, -1, -1, -1, -1, -1, -1, -1)
        return DescribedSegment(
            base, after, size, after - base, 1_000 + base, 1_000 + base, 1_000, 0, 0, 3
        )

    def _index(self, base: int) -> list[IndexEntry]:
        return [
            IndexEntry(base + step, step // PER_BATCH * BATCH_BYTES, 999 + step if step else -1)
            for step in range(0, PER_SEGMENT, INDEXED)
        ]

    def _batches(
        self, request: DescribeLogRequest, index: list[IndexEntry]
    ) -> list[DescribedBatch]:
        begin = request.batches_from
        if begin < 0:
            begin = max([e.offset for e in index if e.offset <= request.at_offset], default=-1)
        if begin < 0 or begin >= self.end:
            return []
        base = begin // PER_SEGMENT * PER_SEGMENT
        upto = min(base + PER_SEGMENT, self.end)
        found = [self._batch(base, offset) for offset in range(begin, upto, PER_BATCH)]
        return found[: request.batch_count_max]

    def _batch(self, base: int, offset: int) -> DescribedBatch:
        position = (offset - base) // PER_BATCH * BATCH_BYTES
        marker = "abort" if self.aborted and offset == self.end - 2 else ""
        in_txn = self.aborted and offset >= self.end - 4
        return DescribedBatch(
            base,
            position,
            offset,
            offset + PER_BATCH - 1,
            PER_BATCH,
            BATCH_BYTES,
            0,
            "none",
            "create_time",
            1_000 + offset,
            1_001 + offset,
            7 if in_txn else -1,
            0 if in_txn else -1,
            0 if in_txn else -1,
            in_txn,
            marker,
        )
