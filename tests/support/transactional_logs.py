"""Transactions in logs come from producers that know their epochs; the rules alone tell what a
reader of committed records makes of a log. What tests of the log room share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.messages.fetch import AbortedTransaction
from oncelog_protocol.records.batch import iter_headers, parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import ControlType, decode_marker
from oncelog_protocol.records.decode import decode_batch
from support.logs import NOW_MS

__all__ = ["TxnProducer", "append_txn", "committed_values", "txn_batch", "undecided_by_replay"]


def txn_batch(
    *values: bytes | None,
    producer: tuple[int, int, int],
    keys: Sequence[bytes | None] | None = None,
) -> memoryview:
    """Return a batch with the transactional bit; ``producer`` is its id, epoch and sequence."""
    producer_id, epoch, sequence = producer
    return memoryview(
        encode_batch(
            list(values) or [b"v"],
            timestamps=NOW_MS,
            keys=keys,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
    )


def append_txn(
    log: PartitionLog, data: memoryview, leader_epoch: int = 0, *, by_number: bool = False
) -> LogAppend:
    """Append as a leader does whose coordinator knows of the transaction."""
    header, guard = parse_header(data), None
    if log.producers.needs_guard(header):
        guard = log.producers.take_guard(
            header.producer_id, header.producer_epoch, by_number=by_number
        )
    return log.append_as_leader(data, leader_epoch, guard)


class TxnProducer:
    """A producer has an epoch, which grows with each transaction, and the next sequence. One whose
    transactions end ``by_number`` keeps its epoch and goes on with its sequences."""

    def __init__(self, producer_id: int = 7, epoch: int = 0, *, by_number: bool = False) -> None:
        self.producer_id, self.epoch, self.sequence = producer_id, epoch, 0
        self.by_number = by_number
        self.number = 0
        """It is the number of the last transaction under this epoch."""

    def fenced(self, epoch: int) -> None:
        """Go on under a newer epoch, as InitPid gives one."""
        self.epoch, self.sequence, self.number = epoch, 0, 0

    def batch(
        self, *values: bytes | None, keys: Sequence[bytes | None] | None = None
    ) -> memoryview:
        """Return the next one of the open transaction."""
        data = txn_batch(*values, producer=(self.producer_id, self.epoch, self.sequence), keys=keys)
        self.sequence += max(1, len(values))
        return data

    def send(
        self,
        log: PartitionLog,
        *values: bytes | None,
        keys: Sequence[bytes | None] | None = None,
        leader_epoch: int = 0,
    ) -> LogAppend:
        """Append the next batch."""
        data = self.batch(*values, keys=keys)
        return append_txn(log, data, leader_epoch, by_number=self.by_number)

    def end(
        self,
        log: PartitionLog,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        leader_epoch: int = 0,
    ) -> LogAppend:
        """Append the marker; the next transaction has the marker's epoch."""
        if self.by_number:
            self.number += 1
            return self.marker_again(
                log, commit=commit, coordinator_epoch=coordinator_epoch, leader_epoch=leader_epoch
            )
        self.epoch, self.sequence = self.epoch + 1, 0
        return log.append_marker(
            commit, self.producer_id, self.epoch, coordinator_epoch, leader_epoch
        )

    def marker_again(
        self,
        log: PartitionLog,
        *,
        commit: bool,
        number: int | None = None,
        coordinator_epoch: int = 0,
        leader_epoch: int = 0,
    ) -> LogAppend:
        """Append the marker of a transaction that ends by number; the last one unless said."""
        told = self.number if number is None else number
        return log.append_marker(
            commit, self.producer_id, self.epoch, coordinator_epoch, leader_epoch, told
        )


def committed_values(
    log: PartitionLog,
    aborted: Iterable[AbortedTransaction] | None = None,
    *,
    start: int | None = None,
    upto: int | None = None,
    max_bytes: int = 1 << 20,
) -> list[bytes | None]:
    """Return what a reader of committed records gets (KIP-98), fetch by fetch. Below an undecided
    transaction, unless ``upto`` says otherwise. ``aborted`` None: the log is asked."""
    position = log.log_start_offset if start is None else start
    end = min(log.log_end_offset, log.producers.first_undecided) if upto is None else upto
    found: list[bytes | None] = []
    while position < end:
        data = memoryview(log.read(position, max_bytes, upto=end))
        if not data:
            break
        batches = [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
        last = parse_header(batches[-1]).next_offset
        known = log.aborted.find(position, last) if aborted is None else list(aborted)
        waiting = sorted(known, key=lambda each: each.first_offset)
        dropping: set[int] = set()
        for batch in batches:
            header = parse_header(batch)
            while waiting and waiting[0].first_offset <= header.base_offset:
                dropping.add(waiting.pop(0).producer_id)
            if header.is_control:
                if decode_marker(batch).control_type is ControlType.ABORT:
                    dropping.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in dropping):
                columns = decode_batch(batch)
                pairs = zip(columns.offsets(), columns.values, strict=True)
                found += [value for offset, value in pairs if offset >= position]
        position = last
    return found


def undecided_by_replay(log: PartitionLog, high_watermark: int) -> int | None:
    """Return where the first undecided transaction begins, as reading the whole log tells, or None
    when all are decided [I15]."""
    opened: dict[int, int] = {}
    undecided: list[int] = []
    position = log.log_start_offset
    while position < log.log_end_offset:
        data = memoryview(log.read(position, 1 << 20, upto=log.log_end_offset))
        for _, header in iter_headers(data):
            if header.is_control:
                first = opened.pop(header.producer_id, None)
                if first is not None and header.base_offset >= high_watermark:
                    undecided.append(first)
            elif header.is_transactional:
                opened.setdefault(header.producer_id, header.base_offset)
            position = header.next_offset
    return min([*undecided, *opened.values()], default=None)
