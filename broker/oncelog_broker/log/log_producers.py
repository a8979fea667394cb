"""A log's producers follow its batches here, and its snapshots the segments.

Owns when ``ProducerState`` is asked, told, truncated, rebuilt and kept on disk. Rules:

- only a leader asks, before it appends; leader and follower tell, after the write [K1];
- a truncation takes back what was remembered of the batches that go. Of a producer of which nothing
  is left then, older batches may be in the log that were not remembered any more: these are read,
  some a turn. A follower names its position when that is done; whoever asks for the state before
  has the rest read at once;
- the first batch of a transaction is appended only under a valid ``TxnGuard``, and the others of
  that producer and epoch while it is open; nothing else of a producer goes between [K13];
- an id belongs to the principal that has used it first: another one could disturb its sequences.
  Only this broker's memory has that, so after a start or an election the first one counts anew. An
  unknown principal owns nothing. The ids of transactions are guarded by their transactional id;
- above ``producer_ids_max`` producers a leader takes nothing of those that it does not remember,
  until time has let others go. None is forgotten for another: its retries would be duplicates;
- a snapshot is of the log end, at a roll, at a stop, and with a checkpoint when much was written
  since the last one, so that a start after a crash has little to read: see ``producer_snapshots``;
- one of many producers is encoded some a turn, and written when all are. A truncation, or the end
  of the log, leaves it out. None is written while producers are being read.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple, Protocol

from oncelog_broker.log.aborted_transactions import AbortedTransactions
from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.open_transactions import NONE_UNDECIDED
from oncelog_broker.log.producer_snapshots import ProducerSnapshots, Steps, last_batch, replay
from oncelog_broker.log.producer_state import EXPIRED_AT_ONCE, Capture, ProducerState
from oncelog_broker.log.segment_list import SegmentList
from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    StorageError,
    ThrottlingQuotaExceededError,
)
from oncelog_protocol.messages.transaction_admin import DescribedProducer
from oncelog_protocol.records.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatchError,
    TimestampType,
)
from oncelog_protocol.records.control import (
    ControlType,
    decode_marker,
    encode_marker,
)
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import NO_TXN_NUMBER, Buffer, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

PRODUCERS_PER_TURN = 2000
"""So many are encoded at a time for a snapshot; some ten milliseconds of work."""

UNREAD_BYTES_MAX = 32 * 1024 * 1024
"""About so much of a log is read at a start after a crash, to know its producers."""


class OwnLog(Protocol):
    """It is the log whose producers are remembered, as seen from here; ``PartitionLog`` is one."""

    topic_partition: TopicPartition
    directory: str
    config: TopicConfig
    log_dir: LogDir
    segments: SegmentList
    aborted: AbortedTransactions
    log_end_offset: int
    recovery_point: int
    damage: str

    @property
    def truncations(self) -> int:
        """Return how often the log was truncated."""
        ...

    def declare_damaged(self, what: str) -> None:
        """Note that something that was synced does not hold."""
        ...

    def tell(self, *, again: bool = False) -> None:
        """Tell how far the log is synced, ``again`` if that is no news."""
        ...


class _Snapshot(NamedTuple):
    """It is a snapshot that is being encoded."""

    offset: int
    last: BatchHeader | None
    state: Capture
    aborted: list[list[int]]


class _Rereading:
    """Producers are being read again, of a log that was truncated to ``end``."""

    def __init__(self, end: int, unknown: dict[int, None]) -> None:
        self.end = end
        self.unknown = unknown
        self.found: ProducerState | None = None
        self.steps: Steps | None = None
        self.changes = -1
        """The list of segments had changed so often when the steps began."""
        self.committed = -1
        """It is the highest high watermark that was heard meanwhile."""


class LogProducers:
    """One log knows its producers by this. It is not for two threads."""

    __slots__ = (
        "_log",
        "_reading",
        "_snapshot",
        "_snapshot_at",
        "_snapshots",
        "_state",
        "leadership_terms",
    )

    def __init__(
        self, log: OwnLog, state: ProducerState, snapshots: ProducerSnapshots | None
    ) -> None:
        """Take over what recovery found."""
        self._log = log
        self._state = state
        self._reading: _Rereading | None = None
        self.leadership_terms = 0
        """The replica has begun or ended to lead so often: a guard is of one leadership term."""
        self._snapshots = snapshots or ProducerSnapshots(log.log_dir.files, log.directory)
        self._snapshot: _Snapshot | None = None
        """It is the snapshot that is being encoded."""
        self._snapshot_at = 0, 0
        """It is the segment, and its size, when the last snapshot was written."""

    @property
    def state(self) -> ProducerState:
        """Return all that is known, at the end of the log. Raises StorageError on a read error."""
        if self._reading is not None:
            self._read_all()
        return self._state

    @property
    def is_reading(self) -> bool:
        """Return whether producers are still being read: asking for the state blocks."""
        return self._reading is not None

    @property
    def count(self) -> int:
        """Return how many producers are remembered, without those that are being read."""
        return len(self._state.producers)

    # ---- appending

    def check(
        self, header: BatchHeader, guard: TxnGuard | None = None, user: str | None = None
    ) -> LogAppend | None:
        """Return what the append of a client's batch was, if it was appended already, or None.

        :param user: the principal of the client; None: it is not known.
        :raises InvalidProducerIdMappingError: the producer id is somebody else's.

        Raises what ``ProducerState.check`` raises, InvalidTxnStateError for a batch of a
        transaction that is not open here and not guarded, and ThrottlingQuotaExceededError for one
        producer too many.
        """
        self._check_room(header.producer_id)
        if not header.attributes & TRANSACTIONAL_BIT:
            self._check_user(header.producer_id, user)
        batch = self.state.check(header, header.crc)
        if batch is None:
            if header.attributes & TRANSACTIONAL_BIT:
                self._check_transaction(header, guard)
            return None
        logger.debug(
            "producer_repeats",
            partition=self._log.topic_partition,
            producer_id=header.producer_id,
            sequence=batch.first_sequence,
            batches_since=self.state.batches_since(header.producer_id, batch),
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

    def _check_user(self, producer_id: int, user: str | None) -> None:
        entry = self.state.producers.get(producer_id)
        if entry is None or entry.user is None or entry.user == user:
            return
        logger.warning(
            "producer_id_of_another", partition=self._log.topic_partition, producer_id=producer_id
        )
        raise InvalidProducerIdMappingError(
            f"producer id {producer_id} was used by another principal in"
            f" {self._log.topic_partition}: ask for one with InitPid"
        )

    def used_by(self, producer_id: int, user: str) -> None:
        """Note who has written under a producer id, unless somebody has before."""
        self._state.used_by(producer_id, user)

    def _check_room(self, producer_id: int) -> None:
        known, most = self.state.producers, self._log.log_dir.producer_ids_max
        if producer_id in known or len(known) < most:
            return
        logger.warning(
            "producers_too_many", partition=self._log.topic_partition, producers=len(known)
        )
        raise ThrottlingQuotaExceededError(
            f"{self._log.topic_partition} remembers {len(known)} producers, and"
            f" producer_ids_per_partition_max is {most}"
        )

    def _check_transaction(self, header: BatchHeader, guard: TxnGuard | None) -> None:
        if not self.state.opens_transaction(header):
            return
        entry = self.state.producers.get(header.producer_id)
        if entry is not None and entry.txn_first_offset >= 0:
            raise InvalidTxnStateError(
                f"producer {header.producer_id}: its transaction of epoch {entry.epoch} has"
                " not ended here"
            )
        by_number = guard is not None and guard.by_number
        if entry is None and header.base_sequence != 0 and not by_number:
            # Each transaction begins at 0, and open ones are never forgotten.
            raise OutOfOrderSequenceNumberError(
                f"producer {header.producer_id} begins a transaction with sequence"
                f" {header.base_sequence} instead of 0"
            )
        if guard is None or not guard.covers(header):
            raise InvalidTxnStateError(
                f"producer {header.producer_id}, epoch {header.producer_epoch}: no transaction"
                " is open, and none was verified"
            )

    def led(
        self, header: BatchHeader, batch: Buffer, base_offset: int, max_timestamp: int, now_ms: int
    ) -> None:
        """Note a batch of a client, or a marker, that this broker has appended as leader."""
        if header.attributes & CONTROL_BIT:
            self._marked(batch, now_ms)
            return
        self.state.applied(
            header._replace(base_offset=base_offset, max_timestamp=max_timestamp),
            now_ms,
            append_time=self._log.config.uses_append_time,
        )

    def followed(self, header: BatchHeader, data: memoryview, now_ms: int) -> None:
        """Note a batch of the leader that was appended: ``data`` begins with it."""
        if header.attributes & CONTROL_BIT:
            self._marked(data[: header.size_bytes], now_ms)
        else:
            append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            self.state.followed(header, now_ms, append_time=append_time)

    def _marked(self, batch: Buffer, now_ms: int) -> None:
        log = self._log
        try:
            row = self.state.marked(decode_marker(batch, verify=False), now_ms)
        except CorruptBatchError as error:
            # A later release wrote it. Its transaction stays undecided here: hidden, not exposed.
            logger.error("log_marker_unreadable", partition=log.topic_partition, error=error)
            return
        if row is None:
            return
        try:
            log.aborted.add(log.segments.active.base_offset, row)
        except OSError as error:
            log.log_dir.fail(f"aborted transactions of {log.topic_partition}", error)
        except CorruptMessageError as error:
            log.declare_damaged(str(error))

    # ---- transactions

    @property
    def first_undecided(self) -> int:
        """Return where the first undecided transaction begins; see ``OpenTransactions``."""
        if self._reading is not None:
            self._read_all()
        return self._state.transactions.first_undecided

    def committed(self, high_watermark: int) -> None:
        """Note that markers below ``high_watermark`` are there for good."""
        if self._reading is not None:
            self._reading.committed = max(self._reading.committed, high_watermark)
        else:
            self._state.transactions.committed(high_watermark)

    def checkpointed(self, high_watermark: int) -> None:
        """Note that the disk holds this high watermark."""
        if self._reading is None:  # or the next checkpoint will tell
            self._state.transactions.checkpointed(high_watermark)

    def needs_guard(self, header: BatchHeader) -> bool:
        """Return whether a client's batch is to be verified before it is appended: the first of its
        transaction here, and neither a repeat nor refused anyway.

        Raises ThrottlingQuotaExceededError before a coordinator is asked: a transaction that is not
        let in here needs no marker here.
        """
        if not header.attributes & TRANSACTIONAL_BIT or not self.state.opens_transaction(header):
            return False
        self._check_room(header.producer_id)
        try:
            return self.state.check(header, header.crc) is None
        except ApiError:
            return False

    def take_guard(
        self, producer_id: int, producer_epoch: int, *, by_number: bool = False
    ) -> TxnGuard:
        """Take a guard before the coordinator is asked; hand it in with the append. ``by_number``:
        it is for a transaction that ends by number, so sequences go on from before."""
        return TxnGuard(self, producer_id, producer_epoch, by_number)

    def void_guards(self) -> None:
        """Make all guards void, as the replica begins or ends to lead."""
        self.leadership_terms += 1

    def open_from(self, producer_id: int) -> int:
        """Return where the open transaction of a producer begins; -1 when it has none."""
        entry = self.state.producers.get(producer_id)
        return -1 if entry is None else entry.txn_first_offset

    def marker(
        self,
        commit: bool,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        number: int = NO_TXN_NUMBER,
    ) -> bytearray | None:
        """Return the batch that ends the transaction of a producer, or None if this marker has
        ended it. Raises what ``ProducerState.check_marker`` raises."""
        if not self.state.check_marker(producer_id, producer_epoch, coordinator_epoch, number):
            return None
        return encode_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=self._log.log_dir.clock.now_ms(),
            first_offset=self.open_from(producer_id),
            number=number,
        )

    def describe(self, count_max: int, after: int = -1) -> tuple[list[DescribedProducer], bool]:
        """Return at most ``count_max`` producers with ids above ``after``, by id (KIP-664), and
        whether there are more."""
        later = (producer_id for producer_id in self.state.producers if producer_id > after)
        found = heapq.nsmallest(count_max + 1, later)
        return [self._described(each) for each in found[:count_max]], len(found) > count_max

    def describe_open(self, count_max: int) -> list[DescribedProducer]:
        """Return at most ``count_max`` producers with an open transaction, by id."""
        producers = self.state.producers.items()
        opened = (producer_id for producer_id, entry in producers if entry.txn_first_offset >= 0)
        return [self._described(each) for each in heapq.nsmallest(count_max, opened)]

    def _described(self, producer_id: int) -> DescribedProducer:
        entry = self.state.producers[producer_id]
        return DescribedProducer(
            producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.batches[-1].timestamp if entry.batches else entry.seen_ms,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )

    def rehouse(self, directory: str) -> None:
        """Keep snapshots in another directory from now on: the log lies there."""
        self._snapshots.rehouse(directory)

    # ---- for compaction

    def last_batches(self, upto: int) -> frozenset[int]:
        """Return base offsets of the last batch or marker of each producer below ``upto``, which
        compaction keeps: what lies behind may yet be truncated."""
        found = set()
        for entry in self.state.producers.values():
            below = [batch.base_offset for batch in entry.batches if batch.base_offset < upto]
            if not below and 0 <= entry.marker_offset < upto:
                below = [entry.marker_offset]
            found.update(below[-1:])
            if entry.marker_number >= 0 and entry.marker_offset < upto:
                found.add(entry.marker_offset)  # its number tells it from the next one's
        return frozenset(found)

    # ---- truncation

    def truncate(self, end: int) -> None:
        """Follow a truncation of the log to ``end``, which is 0 when nothing of it is left.

        Blocks. Raises OSError.
        """
        self.abandon_snapshot()
        self._snapshots.remove_above(end)
        unread = {} if self._reading is None else self._reading.unknown
        self._reading = None
        log, unknown = self._log, {**unread, **dict.fromkeys(self._state.truncate(end))}
        log.aborted.truncate(end)
        if not unknown or not end:
            return self._state.recount(end)
        logger.info("producers_read_again", partition=log.topic_partition, producers=len(unknown))
        self._reading = _Rereading(end, unknown)
        # A turn has had enough work where many producers were looked at.
        few = self.count <= PRODUCERS_PER_TURN
        if (not few or self._read_some()) and not log.log_dir.slices.add(self._read_more):
            self._read_all()

    def _read_some(self) -> bool:
        """Read one step; return whether there are more. Raises OSError."""
        reading, log = self._reading, self._log
        if reading is None:
            return False
        changes = log.segments.changes
        if reading.steps is None or reading.changes != changes:
            # The segments of the first step may be gone, or in other files.
            reading.changes, reading.found = changes, self._state.empty()
            clock = log.log_dir.clock
            reading.steps = self._snapshots.loading(
                list(log.segments), reading.end, reading.found, clock.stamp_of(clock.now_ms())
            )
        try:
            next(reading.steps)
            return True
        except StopIteration as stop:
            self._has_read(reading, str(stop.value))
            return False

    def _has_read(self, reading: _Rereading, damage: str) -> None:
        assert reading.found is not None
        self._reading = None
        self._log.declare_damaged(damage)
        self._state.adopt(reading.found, reading.unknown)
        self._state.recount(reading.end)
        self._state.transactions.committed(reading.committed)

    def _read_more(self) -> bool:
        """Read one step in a later turn; return whether there is more to read."""
        log = self._log
        if log.log_dir.flusher.stopped:
            self._reading = None
            return False
        if log.damage:
            self._reading = None
        try:
            if self._read_some():
                return True
        except OSError as error:
            self._cannot_read(error)
            return False
        log.tell(again=True)  # a follower that has waited for this may go on
        return False

    def _read_all(self) -> None:
        try:
            while self._read_some():
                pass
        except OSError as error:
            self._cannot_read(error)
            raise StorageError(f"{self._log.topic_partition}: {error}") from error

    def _cannot_read(self, error: OSError) -> None:
        self._reading = None
        logger.error("producers_not_read", partition=self._log.topic_partition, error=error)
        self._log.log_dir.fail(f"read producers of {self._log.topic_partition}", error)

    def expire(self, now_ms: int, after_ms: int, latest_ms: int | None = None) -> bool:
        """Forget producers that have not written for ``after_ms`` milliseconds, or whose
        transaction has ended long enough ago; return whether there may be more of them. See
        ``ProducerState.expire``."""
        if self._reading is not None:
            return False  # another time
        return self._state.expire(now_ms, after_ms, latest_ms) == EXPIRED_AT_ONCE

    # ---- on disk

    def snapshot(self, *, at_once: bool = False) -> None:
        """Keep the state as of the log end, if that is not done. Never raises for a bad disk.
        ``at_once``: there will be no other turn."""
        log = self._log
        offset = log.log_end_offset
        if log.damage or not log.log_dir.online or self._snapshots.newest == offset:
            return
        if self._reading is not None:
            return
        if self._snapshot is not None and self._snapshot.offset == offset and not at_once:
            return
        try:
            last = last_batch(list(log.segments), offset)
        except (OSError, CorruptBatchError, CorruptMessageError):
            return  # for others to find
        log.aborted.persist()
        if last is not None or self.state.producers:
            active = log.segments.active
            self._snapshot_at = active.base_offset, active.size_bytes
            begun = _Snapshot(offset, last, self.state.capture(), log.aborted.encode())
            self._snapshot = begun
            few = begun.state.left <= PRODUCERS_PER_TURN
            if at_once or few or not log.log_dir.slices.add(lambda: self._encode_more(begun)):
                begun.state.encode_some(begun.state.left)
                self._write(begun)

    def _encode_more(self, begun: _Snapshot) -> bool:
        """Encode some producers in a later turn; return whether there is more to encode."""
        log = self._log
        if self._snapshot is not begun:
            return False
        if log.damage or log.log_dir.flusher.stopped:
            self.abandon_snapshot()
            return False
        begun.state.encode_some(PRODUCERS_PER_TURN)
        if not begun.state.left:
            self._write(begun)
        return self._snapshot is begun

    def _write(self, begun: _Snapshot) -> None:
        self.abandon_snapshot()
        state = begun.state.encoded()
        recovery_point = self._log.recovery_point
        self._snapshots.write(begun.offset, begun.last, state, recovery_point, begun.aborted)

    def close(self, *, keep: bool) -> None:
        """Close it with the log; ``keep`` writes a snapshot for a start that will read it."""
        if keep:
            self.snapshot(at_once=True)
        self.abandon_snapshot()
        self._reading = None

    def abandon_snapshot(self) -> None:
        """Do not write the snapshot that is being encoded."""
        self._snapshot = None
        self._state.end_capture()

    def keep_up(self, after_bytes: int = UNREAD_BYTES_MAX) -> bool:
        """Keep the state if so much was written since; return whether it was done now."""
        active = self._log.segments.active
        base, size = self._snapshot_at
        if active.size_bytes - (size if base == active.base_offset else 0) < after_bytes:
            return False
        self.snapshot()
        return True

    def contradiction(self) -> str:
        """Return where state and aborted transactions differ from the log; empty when nowhere [I14]
        [I15]. Blocks, reads the log whole. Raises OSError."""
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


class TxnGuard:
    """The first batch of a transaction enters a log under it (KIP-890, [K13]).

    It is taken before the coordinator is asked, and says at the append whether what the
    coordinator said can still be true of this log. No list of guards is kept: a guard remembers
    how the log was, and finds out what has happened since. It is void for good when

    - a marker of its producer is in the log that was not there then: the transaction may be the
      one that has ended. Offsets tell them apart, so that two transactions cannot be taken for
      each other;
    - its producer has a newer epoch here, or was forgotten with a marker newer than the guard;
    - the log was truncated, or the replica has begun or ended to lead.
    """

    __slots__ = (
        "_end_offset",
        "_leadership_terms",
        "_producers",
        "_truncations",
        "by_number",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self, producers: LogProducers, producer_id: int, producer_epoch: int, by_number: bool
    ) -> None:
        log = producers._log
        self._producers = producers
        self._end_offset = log.log_end_offset
        self._truncations = log.truncations
        self._leadership_terms = producers.leadership_terms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.by_number = by_number

    @property
    def valid(self) -> bool:
        """Return whether what was asked under it still counts."""
        producers = self._producers
        if (
            producers._log.truncations != self._truncations
            or producers.leadership_terms != self._leadership_terms
        ):
            return False
        if producers.state.forgotten_marker >= self._end_offset:
            return False
        entry = producers.state.producers.get(self.producer_id)
        return entry is None or (
            entry.marker_offset < self._end_offset and entry.epoch <= self.producer_epoch
        )

    def covers(self, header: BatchHeader) -> bool:
        """Return whether a batch may be appended under it."""
        return (
            header.producer_id == self.producer_id
            and header.producer_epoch == self.producer_epoch
            and self.valid
        )
