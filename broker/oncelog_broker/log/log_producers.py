"""The producers of one log: their state follows its batches, and its snapshots the segments.

Owns when ``ProducerState`` is asked, told, cut, rebuilt and kept on disk. Rules:

- only a leader asks, before it appends; leader and follower tell, after the write (K1);
- a cut takes back what was remembered of the batches that go. Of a producer of which nothing is
  left then, older batches may be in the log that were not remembered any more: these are read;
- the first batch of a transaction is appended only under a valid ``TxnGuard``, and the others of
  that producer and epoch while it is open; nothing else of a producer goes between (K13);
- a snapshot is of the log end, at a roll, at a stop, and with a checkpoint when much was written
  since the last one, so that a start after a crash has little to read: see ``producer_snapshots``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_broker.log import logged
from oncelog_broker.log.aborted_transactions import AbortedTransactions
from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.log.open_transactions import NONE_UNDECIDED, AbortedRow
from oncelog_broker.log.producer_snapshots import ProducerSnapshots, last_batch, replay
from oncelog_broker.log.producer_state import ProducerState
from oncelog_broker.log.txn_guard import TxnGuard
from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
)
from oncelog_protocol.messages.transaction_admin import DescribedProducer
from oncelog_protocol.records.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatchError,
    TimestampType,
)
from oncelog_protocol.records.control import ControlType, decode_marker, encode_marker
from oncelog_protocol.types import Buffer

__all__ = ["LogProducers", "TxnGuard"]

if TYPE_CHECKING:
    from oncelog_broker.log.partition_log import PartitionLog

logger = logged.get_logger(__name__)

UNREAD_BYTES_MAX = 32 * 1024 * 1024
"""About so much of a log is read at a start after a crash, to know its producers."""


class LogProducers:
    """What one log knows of its producers. Not for two threads."""

    __slots__ = (
        "_late",
        "_log",
        "_rows_in_time",
        "_snapshot_at",
        "_snapshots",
        "_told",
        "_verifies",
        "reigns",
        "state",
    )

    def __init__(
        self, log: PartitionLog, state: ProducerState, snapshots: ProducerSnapshots | None
    ) -> None:
        """Take over what recovery found."""
        self._log = log
        self.state = state
        safeguards = log.log_dir.safeguards
        self._told = safeguards.followers_know_producers
        self._verifies = safeguards.verify_transactions
        self._rows_in_time = safeguards.abort_index_before_lso
        self._late: AbortedRow | None = None
        """Used without a safeguard only."""
        self.reigns = 0
        """How often the replica began or ended to lead: guards are of one reign."""
        self._snapshots = snapshots or ProducerSnapshots(log.log_dir.files, log.directory)
        self._snapshot_at = 0, 0
        """Segment and its size when the last snapshot was written."""

    # ---- appending

    def check(self, header: BatchHeader, guard: TxnGuard | None = None) -> LogAppend | None:
        """What the append of a client's batch was, if it was appended already; None: append it.

        Raises what ``ProducerState.check`` raises, and InvalidTxnStateError for a batch of a
        transaction that is not open here and not guarded.
        """
        batch = self.state.check(header, header.crc)
        if batch is None:
            if header.attributes & TRANSACTIONAL_BIT:
                self._check_transaction(header, guard)
            return None
        logger.debug(
            logged.PRODUCER_REPEATS,
            self._log.topic_partition,
            header.producer_id,
            batch.first_sequence,
            self.state.batches_since(header.producer_id, batch),
        )
        return LogAppend(
            batch.base_offset,
            batch.last_offset,
            batch.timestamp,
            batch.timestamp if self._log.config.uses_append_time else -1,
            header.size_bytes,
            header.record_count,
            True,
        )

    def _check_transaction(self, header: BatchHeader, guard: TxnGuard | None) -> None:
        entry = self.state.producers.get(header.producer_id)
        if entry is not None and entry.txn_first_offset >= 0:
            if entry.epoch != header.producer_epoch:
                raise InvalidTxnStateError(
                    f"producer {header.producer_id}: its transaction of epoch {entry.epoch} has"
                    " not ended here"
                )
            return
        if entry is None and header.base_sequence != 0:
            # Each transaction begins at 0, and open ones are never forgotten.
            raise OutOfOrderSequenceNumberError(
                f"producer {header.producer_id} begins a transaction with sequence"
                f" {header.base_sequence} instead of 0"
            )
        if self._verifies and (guard is None or not guard.covers(header)):
            raise InvalidTxnStateError(
                f"producer {header.producer_id}, epoch {header.producer_epoch}: no transaction"
                " is open, and none was verified"
            )

    def led(
        self, header: BatchHeader, batch: Buffer, base_offset: int, max_timestamp: int, now_ms: int
    ) -> None:
        """This broker has appended a batch of a client, or a marker, as leader."""
        if header.attributes & CONTROL_BIT:
            self._marked(batch, now_ms)
            return
        self.state.applied(
            header._replace(base_offset=base_offset, max_timestamp=max_timestamp),
            now_ms,
            append_time=self._log.config.uses_append_time,
        )

    def followed(self, header: BatchHeader, data: memoryview, now_ms: int) -> None:
        """A batch of the leader was appended: ``data`` begins with it."""
        if header.attributes & CONTROL_BIT:
            self._marked(data[: header.size_bytes], now_ms)
        elif self._told or header.attributes & TRANSACTIONAL_BIT:
            append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            self.state.applied(header, now_ms, append_time=append_time)

    def _marked(self, batch: Buffer, now_ms: int) -> None:
        log = self._log
        try:
            row = self.state.marked(decode_marker(batch, verify=False), now_ms)
        except CorruptBatchError as error:
            # Of a later release. What it ends stays undecided here: hidden, not exposed.
            logger.error(logged.LOG_MARKER_UNREADABLE, log.topic_partition, error)
            return
        if not self._rows_in_time:
            row, self._late = self._late, row
        if row is None:
            return
        try:
            log.aborted.add(log.segments.active.base_offset, row)
        except OSError as error:
            log.log_dir.fail(f"aborted transactions of {log.topic_partition}", error)
        except CorruptMessageError as error:
            log.damage = str(error)

    # ---- transactions

    @property
    def first_undecided(self) -> int:
        """Where the first undecided transaction begins; see ``OpenTransactions``."""
        return self.state.transactions.first_undecided

    def committed(self, high_watermark: int) -> None:
        """Markers below ``high_watermark`` are there for good."""
        self.state.transactions.committed(high_watermark)

    def checkpointed(self, high_watermark: int) -> None:
        """The disk holds this high watermark."""
        self.state.transactions.checkpointed(high_watermark)

    def needs_guard(self, header: BatchHeader) -> bool:
        """Whether a client's batch is to be verified before it is appended: the first of its
        transaction here, and neither a repeat nor refused anyway."""
        if not self._verifies or not header.attributes & TRANSACTIONAL_BIT:
            return False
        entry = self.state.producers.get(header.producer_id)
        if (
            entry is not None
            and entry.txn_first_offset >= 0
            and entry.epoch == header.producer_epoch
        ):
            return False
        try:
            return self.state.check(header, header.crc) is None
        except ApiError:
            return False

    def take_guard(self, producer_id: int, producer_epoch: int) -> TxnGuard:
        """Take one before the coordinator is asked; hand it in with the append."""
        return TxnGuard(self._log, producer_id, producer_epoch)

    def void_guards(self) -> None:
        """The replica begins or ends to lead."""
        self.reigns += 1

    def open_from(self, producer_id: int) -> int:
        """Where the open transaction of a producer begins; -1 when it has none."""
        entry = self.state.producers.get(producer_id)
        return -1 if entry is None else entry.txn_first_offset

    def marker(
        self, commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> bytearray | None:
        """The batch that ends the transaction of a producer; None: it has ended, by this marker.
        Raises what ``ProducerState.check_marker`` raises."""
        if not self.state.check_marker(producer_id, producer_epoch, coordinator_epoch):
            return None
        return encode_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=self._log.log_dir.clock.now_ms(),
            first_offset=self.open_from(producer_id),
        )

    def describe(self) -> list[DescribedProducer]:
        """All producers, by id (KIP-664)."""
        return [
            DescribedProducer(
                producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.batches[-1].timestamp if entry.batches else entry.seen_ms,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
            for producer_id, entry in sorted(self.state.producers.items())
        ]

    # ---- for compaction

    def last_batches(self, upto: int) -> frozenset[int]:
        """Base offsets of the last batch or marker of each producer below ``upto``, for compaction
        to keep: what lies behind may yet be cut off."""
        found = set()
        for entry in self.state.producers.values():
            below = [batch.base_offset for batch in entry.batches if batch.base_offset < upto]
            if not below and 0 <= entry.marker_offset < upto:
                below = [entry.marker_offset]
            found.update(below[-1:])
        return frozenset(found)

    # ---- cutting

    def cut(self, end: int) -> None:
        """The log was cut, and ends at ``end`` now; 0 when nothing of it is left.

        Blocks. Raises OSError.
        """
        self._snapshots.remove_above(end)
        self._late = None
        unknown = self.state.cut(end)
        log = self._log
        if unknown and end:
            logger.info(logged.PRODUCERS_READ_AGAIN, log.topic_partition, len(unknown))
            known = self.state.empty()
            now_ms = log.log_dir.clock.now_ms()
            damage = self._snapshots.load(list(log.segments), known, now_ms)
            log.damage = log.damage or damage
            self.state.adopt(known, unknown)
        self.state.recount(end)
        log.aborted.cut(end)

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget producers that have not written for ``after_ms`` milliseconds."""
        self.state.expire(now_ms, after_ms)

    # ---- on disk

    def snapshot(self) -> None:
        """Keep the state as of the log end, if that is not done. Never raises for a bad disk."""
        log = self._log
        offset = log.log_end_offset
        if log.damage or not log.log_dir.online or self._snapshots.newest == offset:
            return
        try:
            last = last_batch(list(log.segments), offset)
        except (OSError, CorruptBatchError, CorruptMessageError):
            return  # for others to find
        log.aborted.persist()
        if last is not None or self.state.producers:
            active = log.segments.active
            self._snapshot_at = active.base_offset, active.size_bytes
            self._snapshots.write(offset, last, self.state, log.recovery_point, log.aborted)

    def keep_up(self, after_bytes: int = UNREAD_BYTES_MAX) -> bool:
        """Keep the state if so much was written since that was done; whether it was done now."""
        active = self._log.segments.active
        base, size = self._snapshot_at
        if active.size_bytes - (size if base == active.base_offset else 0) < after_bytes:
            return False
        self.snapshot()
        return True

    def contradiction(self) -> str:
        """What state and aborted transactions say otherwise than the log; empty when nothing (I14,
        I15). Blocks, reads the log whole. Raises OSError."""
        log, compacted = self._log, self._log.config.is_compacted
        replayed, aborted = self.state.empty(), AbortedTransactions(log.log_dir.files, "")
        if damage := replay(list(log.segments), replayed, 0, aborted):
            return damage
        said = self.state.contradiction(replayed, compacted=compacted)
        if said:
            return said
        opened = replayed.transactions.first_open(NONE_UNDECIDED)
        if opened < self.first_undecided:
            return f"undecided from {self.first_undecided} on, and from {opened} in the log"
        known = {row[:3] for row in log.aborted.rows()}
        for row in aborted.rows():
            if row[:3] not in known:
                return f"{row} is not known"
        there = {row[:3] for row in aborted.rows()}
        for row in log.aborted.rows():
            if row[:3] not in there:
                return f"{row} is known, and not in the log"
        return ""
