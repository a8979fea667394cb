"""A log remembers the last batches of each producer, so that a retry is not a duplicate.

Pure: a function of the batches in the log, in their order [I14]. The leader checks a batch here
before it appends it; leader, follower and recovery apply what was appended by the same method, and
never check again what is in the log. Rules (KIP-98, KIP-360):

- five batches are remembered per producer, as many as a client may have unanswered. Exactly the
  same batch again, by sequences and content, is answered with the offset that it got; it is not
  appended;
- the next batch begins at the sequence after the last one, which wraps from 2^31 - 1 to 0; anything
  else has a gap before it or was written already in another shape: OUT_OF_ORDER_SEQUENCE_NUMBER. A
  batch that lies wholly before those remembered is in the log, nobody knows where any more:
  DUPLICATE_SEQUENCE_NUMBER;
- an epoch only rises (else INVALID_PRODUCER_EPOCH), and a new one begins at sequence 0;
- a producer without state, forgotten after ``producer_id_expiration_ms`` or deleted with its
  records, may begin at any sequence: nothing is known that it could contradict;
- the first batch with the transactional bit opens a transaction of its producer, a marker ends it
  and leaves (the marker's epoch, no batches): the next batch begins at sequence 0. A marker's epoch
  is above that of what it ends ([K14], KIP-1228); an equal one with nothing open is a repeat;
- a marker *with a number* leaves the epoch, the sequences and the batches as they are: its producer
  goes on under that epoch. One whose number is not above that of the last marker of the epoch here
  is a repeat; any other ends what is open, and is written also when nothing is [N110];
- a marker of an older coordinator than the last one is refused by a leader, and only noted by those
  that apply what is in the log [B20].

State is kept when the records it came from are deleted (KIP-360); it goes by time alone. The state
of a producer with an open transaction, or with a marker that is not committed, does not go. Where a
marker was the last of a producer, little time is enough: a batch that may yet come of it begins a
transaction, which its coordinator must know of first. So the writers of shared transactions, new
ones with each, do not pile up.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import msgpack

from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.open_transactions import AbortedRow, EndedTransaction, OpenTransactions
from oncelog_protocol.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from oncelog_protocol.records.batch import TRANSACTIONAL_BIT, BatchHeader
from oncelog_protocol.records.control import ControlType, Marker
from oncelog_protocol.types import NO_TXN_NUMBER
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

BATCHES_MAX = 5
"""A producer has as many in flight to one partition; a smaller window would refuse retries."""

ENDED_MS = 300_000
"""A producer is remembered so long behind its marker, at most: for the repeats of that marker."""

EXPIRED_AT_ONCE = 10_000
"""So many producers are forgotten at once: some milliseconds of work."""

RESTORED_PER_STEP = 1000
"""So many producers of a snapshot are restored in one step: some ten milliseconds of work."""

SEQUENCE_MAX = 2**31 - 1
_VERSION = 3
_WITHOUT_NUMBERS = 2
"""It is the version of before; its rows have no number of a marker."""
_WITHOUT_TRANSACTIONS = 1
"""It is the version before that; its rows have nothing of transactions."""
NO_OFFSET = -1
ANY_CONTENT = -1
"""It stands for the checksum of a batch whose own was replaced, when the broker wrote its time into
it or when compaction took records out of it."""


class RememberedBatch(NamedTuple):
    """It is one batch of a producer as the log holds it."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """It is the time of its newest record, in ms since 1970."""
    content: int
    """It is the batch's checksum, which tells it from another with the same sequences."""


def next_sequence(sequence: int, count: int = 1) -> int:
    """Return the sequence ``count`` after ``sequence``; it wraps from 2^31 - 1 to 0."""
    return (sequence + count) & SEQUENCE_MAX


@dataclass(slots=True, eq=False)
class ProducerEntry:
    """It is one producer in one partition."""

    epoch: int
    seen_ms: int
    """It is the time when its last batch or marker was appended, by this broker's clock."""
    batches: list[RememberedBatch] = field(default_factory=list)
    """They come with the oldest first, and are at most ``BATCHES_MAX``."""
    txn_first_offset: int = NO_OFFSET
    """Its open transaction begins here; -1 when none is open."""
    coordinator_epoch: int = -1
    """It is the coordinator epoch of its last marker; -1 before the first one."""
    marker_offset: int = NO_OFFSET
    """It is the offset of its last marker; -1 before the first one."""
    marker_number: int = NO_TXN_NUMBER
    """The last marker of this epoch had this number; -1: none had one."""
    user: str | None = None
    """This principal has used it first, as far as this broker has seen as leader; None: nobody who
    is known. It is nowhere but in memory."""

    @property
    def is_ended(self) -> bool:
        """Return whether a marker was its last."""
        return not self.batches and self.txn_first_offset < 0

    @property
    def last_sequence(self) -> int:
        """Return the last sequence of its last batch; -1 before the first one."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerState:
    """It knows all producers of one log."""

    __slots__ = ("_capture", "forgotten_marker", "producers", "transactions")

    window: ClassVar[int] = BATCHES_MAX
    """So many batches of each producer are remembered, as it may have as many unanswered [K1]."""

    def __init__(self) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self.forgotten_marker = NO_OFFSET
        """It is the newest marker of those producers that were forgotten with time."""
        self._capture: Capture | None = None
        """It is the state of an earlier moment, as long as it is being encoded."""

    def check(self, header: BatchHeader, content: int) -> RememberedBatch | None:
        """Return the batch that a client's batch repeats, or None if it may be appended.

        :raises InvalidProducerEpochError: the producer has a newer epoch here.
        :raises OutOfOrderSequenceNumberError: it does not follow what is there.
        :raises DuplicateSequenceNumberError: it was appended, longer ago than is remembered.
        :raises InvalidTxnStateError: it is of no transaction, and one of its producer is open.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"producer {header.producer_id} has epoch {entry.epoch}, not"
                f" {header.producer_epoch}"
            )
        if entry.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL_BIT:
            raise InvalidTxnStateError(
                f"producer {header.producer_id} has a transaction open, and this is of none"
            )
        first = header.base_sequence
        if header.producer_epoch > entry.epoch:
            if first != 0:
                raise OutOfOrderSequenceNumberError(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} with"
                    f" sequence {first} instead of 0"
                )
            return None
        if not entry.batches:
            # Behind a marker with a number sequences go on; what was before is not known any more.
            if first != 0 and entry.marker_offset >= 0 and entry.marker_number < 0:
                raise OutOfOrderSequenceNumberError(
                    f"producer {header.producer_id} begins behind a marker with sequence {first}"
                    " instead of 0"
                )
            return None
        if first == next_sequence(entry.last_sequence):
            return None
        return self._repeated(entry, header, content)

    def _repeated(self, entry: ProducerEntry, header: BatchHeader, content: int) -> RememberedBatch:
        first = header.base_sequence
        end = next_sequence(first, header.last_offset_delta)
        for batch in reversed(entry.batches):
            if batch.first_sequence == first and batch.last_sequence == end:
                if content != batch.content != ANY_CONTENT:
                    raise OutOfOrderSequenceNumberError(
                        f"sequences {first} to {end} of producer {header.producer_id} are those of"
                        " another batch"
                    )
                return batch
        oldest = entry.batches[0].first_sequence
        # Half the circle of sequences is before the oldest one that is known, half behind.
        if len(entry.batches) == self.window and _is_before(end, oldest):
            raise DuplicateSequenceNumberError(
                f"sequences {first} to {end} of producer {header.producer_id} were written before"
                f" {oldest}, the oldest that is remembered"
            )
        raise OutOfOrderSequenceNumberError(
            f"producer {header.producer_id}: sequence {first} where"
            f" {next_sequence(entry.last_sequence)} was to come"
        )

    def opens_transaction(self, header: BatchHeader) -> bool:
        """Return whether a transactional batch is not of the transaction that its producer has open
        here: it may enter the log only under a guard, after its coordinator was asked [K13]."""
        entry = self.producers.get(header.producer_id)
        return entry is None or entry.txn_first_offset < 0 or entry.epoch != header.producer_epoch

    def followed(self, header: BatchHeader, now_ms: int, *, append_time: bool) -> None:
        """Note a batch that a follower has appended, for the day on which it leads [I14]."""
        self.applied(header, now_ms, append_time=append_time)

    def applied(self, header: BatchHeader, now_ms: int, *, append_time: bool) -> None:
        """Note a batch with offsets that is in the log."""
        if header.producer_id < 0:
            return
        if self._capture is not None:
            self._capture.keep(header.producer_id)
        # Compaction leaves fewer records under the same sequences.
        whole = header.record_count == header.last_offset_delta + 1 and not append_time
        content = header.crc if whole else ANY_CONTENT
        first = header.base_sequence
        batch = RememberedBatch(
            first,
            next_sequence(first, header.last_offset_delta),
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            content,
        )
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(
                header.producer_epoch, now_ms
            )
        elif header.producer_epoch != entry.epoch:
            entry.epoch = header.producer_epoch
            entry.marker_number = NO_TXN_NUMBER
            entry.batches.clear()
        entry.seen_ms = now_ms
        entry.batches.append(batch)
        if len(entry.batches) > self.window:
            del entry.batches[0]
        if header.attributes & TRANSACTIONAL_BIT and entry.txn_first_offset < 0:
            entry.txn_first_offset = header.base_offset
            self.transactions.began(header.base_offset)

    def used_by(self, producer_id: int, user: str) -> None:
        """Note who has written under an id, unless somebody has before."""
        entry = self.producers.get(producer_id)
        if entry is not None and entry.user is None:
            entry.user = sys.intern(user)  # so that each entry takes a reference, and no more

    # ---- markers

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        number: int = NO_TXN_NUMBER,
    ) -> bool:
        """Return whether a coordinator's marker is to be appended; False if it was, or if there is
        nothing to end.

        :raises TransactionCoordinatorFencedError: a newer coordinator has ended one here.
        :raises InvalidProducerEpochError: what is here is of a newer transaction.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            return True
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"producer {producer_id}: a coordinator of epoch {coordinator_epoch}, and one of"
                f" epoch {entry.coordinator_epoch} was here"
            )
        if producer_epoch > entry.epoch:
            return True
        if producer_epoch == entry.epoch and number >= 0:
            return self._is_newer(entry, number)
        if producer_epoch == entry.epoch and entry.txn_first_offset < 0:
            return False
        raise InvalidProducerEpochError(
            f"a marker of epoch {producer_epoch}, producer {producer_id} has epoch {entry.epoch}"
        )

    def _is_newer(self, entry: ProducerEntry, number: int) -> bool:
        """Return whether a marker with a number of this epoch is not one that was here [N110]."""
        return number > entry.marker_number

    def marked(self, marker: Marker, now_ms: int) -> AbortedRow | None:
        """Note a marker that is in the log; return the range that it aborts, if it does and there
        is one."""
        if self._capture is not None:
            self._capture.keep(marker.producer_id)
        entry = self.producers.get(marker.producer_id)
        if entry is None:
            entry = self.producers[marker.producer_id] = ProducerEntry(
                marker.producer_epoch, now_ms
            )
        first = entry.txn_first_offset
        entry.txn_first_offset = NO_OFFSET
        if marker.number < 0 or marker.producer_epoch != entry.epoch:
            entry.batches.clear()
        entry.epoch = marker.producer_epoch
        entry.marker_number = marker.number
        entry.marker_offset = marker.offset
        entry.seen_ms = now_ms
        if marker.coordinator_epoch < entry.coordinator_epoch:
            logger.warning(
                "marker_of_older_coordinator", producer_id=marker.producer_id, marker=marker
            )
        else:
            entry.coordinator_epoch = marker.coordinator_epoch
        if first >= 0:
            self.transactions.ended(first, marker.offset)
        if marker.control_type is ControlType.COMMIT:
            return None
        if marker.first_offset >= 0:
            first = marker.first_offset
        if first < 0:
            return None
        stable = self.transactions.first_open(marker.offset + 1)
        return AbortedRow(marker.producer_id, first, marker.offset, stable)

    def batches_since(self, producer_id: int, batch: RememberedBatch) -> int:
        """Return how many of the producer's remembered batches came after this one."""
        batches = self.producers[producer_id].batches
        return len(batches) - 1 - batches.index(batch)

    def expire(self, now_ms: int, after_ms: int, latest_ms: int | None = None) -> int:
        """Forget producers that were not heard of for ``after_ms``, or for ``ENDED_MS`` behind the
        end of a transaction, ``EXPIRED_AT_ONCE`` of them at most; return how many.

        :param now_ms: the time that it surely is; 0 when nobody knows.
        :param latest_ms: the time that it may be already; ``now_ms`` unless said. A producer that
            was noted later than that was noted when nobody knew the time, and counts as heard of
            now.
        """
        latest_ms = now_ms if latest_ms is None else latest_ms
        ended_after_ms = min(after_ms, ENDED_MS)
        uncommitted = self.transactions.first_uncommitted_marker()
        some: list[int] = []
        for producer_id, entry in self.producers.items():
            if entry.seen_ms > latest_ms and now_ms > 0:
                entry.seen_ms = latest_ms
            elif (
                now_ms - entry.seen_ms > (ended_after_ms if entry.is_ended else after_ms)
                and entry.txn_first_offset < 0
                and entry.marker_offset < uncommitted
            ):
                some.append(producer_id)
                if len(some) == EXPIRED_AT_ONCE:
                    break
        for producer_id in some:
            marker = self.producers.pop(producer_id).marker_offset
            self.forgotten_marker = max(self.forgotten_marker, marker)
        return len(some)

    def truncate(self, end: int) -> list[int]:
        """Forget the batches behind ``end``, where the log ends now. Return the producers of which
        nothing is left, or a marker is truncated, though the log may hold older batches of theirs
        that were not remembered. :meth:`recount` follows.

        There is nothing older of a producer whose first batch is remembered: it is just forgotten.
        """
        self._capture = None
        unknown: list[int] = []
        fresh: list[int] = []
        for producer_id, entry in self.producers.items():
            batches = entry.batches
            # A marker with a number leaves the batches before it, which may stay now.
            if entry.txn_first_offset >= end:
                entry.txn_first_offset = NO_OFFSET
            stays = batches[-1].last_offset < end if batches else entry.marker_offset >= 0
            if stays and entry.marker_offset < end:
                continue
            count = len(batches)
            is_fresh = self._is_whole(entry)
            while batches and batches[-1].last_offset >= end:
                del batches[-1]
            kept = len(batches) > 0 or (count == 0 and entry.marker_offset >= 0)
            if entry.marker_offset >= end or not kept:
                (fresh if is_fresh else unknown).append(producer_id)
        for producer_id in (*unknown, *fresh):
            del self.producers[producer_id]
        return unknown

    def _is_whole(self, entry: ProducerEntry) -> bool:
        """Return whether all is remembered that a producer ever wrote here: its first epoch begins
        at sequence 0, and numbers only wrap behind more batches than are remembered."""
        return (
            entry.epoch == 0
            and entry.marker_offset < 0
            and 0 < len(entry.batches) < self.window
            and entry.batches[0].first_sequence == 0
        )

    def recount(self, end: int) -> None:
        """Find the transactions again, as the log was truncated to ``end`` and the producers are
        known again."""
        self.transactions.truncate(end, self._open())

    def _open(self) -> list[int]:
        first_offsets = [entry.txn_first_offset for entry in self.producers.values()]
        return [offset for offset in first_offsets if offset >= 0]

    def adopt(self, other: ProducerState, producer_ids: Iterable[int]) -> None:
        """Take over what another state says of these producers."""
        for producer_id in producer_ids:
            if (entry := other.producers.get(producer_id)) is not None:
                self.producers[producer_id] = entry

    def empty(self) -> ProducerState:
        """Return a state without producers that goes by the same rules."""
        return type(self)()

    def contradiction(self, replayed: ProducerState, *, compacted: bool = False) -> str:
        """Return where this state says other things than a replay of the log does [I14]; empty
        means nowhere.

        If only one of the two remembers something, since records were deleted or truncated, that is
        no contradiction. Nor is, in a ``compacted`` log, what went between a producer's last batch
        and others.
        """
        for producer_id, other in replayed.producers.items():
            entry = self.producers.get(producer_id)
            if entry is None and other.is_ended and other.marker_offset <= self.forgotten_marker:
                continue
            if entry is None:
                return f"producer {producer_id} is not known"
            if entry.epoch != other.epoch:
                return f"producer {producer_id}: epoch {entry.epoch}, the log has {other.epoch}"
            if (entry.txn_first_offset < 0) != (other.txn_first_offset < 0):
                return (
                    f"producer {producer_id}: a transaction from {entry.txn_first_offset}, the log"
                    f" has one from {other.txn_first_offset}"
                )
            if 0 <= other.marker_number != entry.marker_number:
                return (
                    f"producer {producer_id}: number {entry.marker_number}, the log has"
                    f" {other.marker_number}"
                )
            pairs = zip(reversed(entry.batches), reversed(other.batches), strict=False)
            for number, (one, two) in enumerate(pairs):
                if one[:4] != two[:4] and not (compacted and number):
                    return f"producer {producer_id}: {one}, the log has {two}"
        return ""

    # ---- snapshots

    def encode(self) -> bytes:
        """Return the whole state, for a ``.snapshot`` file; it is checked by :meth:`restore`."""
        capture = Capture(self)
        capture.encode_some(len(self.producers))
        return capture.encoded()

    def capture(self) -> Capture:
        """Return the state of now, to be encoded some producers at a time while this one goes on.
        There is one at most: an earlier one that has not ended is of no use any more."""
        self._capture = Capture(self)
        return self._capture

    def end_capture(self) -> None:
        """Forget the capture: it is encoded, or nobody wants it."""
        self._capture = None

    def restore(self, data: bytes) -> None:
        """Replace the state by what :meth:`encode` gave.

        :raises CheckpointError: the bytes do not hold.
        """
        for _ in self.restoring(data):
            pass

    def restoring(self, data: bytes) -> Iterator[None]:
        """Do what :meth:`restore` does, some producers a step."""
        if len(data) < 5 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "big"):
            raise CheckpointError("producer snapshot: the checksum does not hold")
        unpacker = msgpack.Unpacker(max_buffer_size=len(data))
        unpacker.feed(memoryview(data)[4:])
        try:
            parts = unpacker.read_array_header()
            version = unpacker.unpack()
            if version not in (_WITHOUT_TRANSACTIONS, _WITHOUT_NUMBERS, _VERSION):
                raise CheckpointError(f"producer snapshot: version {version!r}")
            producers = {}
            for number in range(1, unpacker.read_array_header() + 1):
                row = unpacker.unpack()
                producers[row[0]] = _entry(row)
                if number % RESTORED_PER_STEP == 0:
                    yield
            ended = unpacker.unpack() if parts > 2 and version > _WITHOUT_TRANSACTIONS else []
            self.producers = producers
            self.transactions.reset(self._open(), [EndedTransaction(*each) for each in ended])
        except (ValueError, TypeError, IndexError, msgpack.OutOfData) as error:
            raise CheckpointError(f"producer snapshot: {error!r}") from None


class Capture:
    """It is what a state was at one moment. Changes that come before all of it is encoded are
    announced by the state, which is changed in place."""

    def __init__(self, state: ProducerState) -> None:
        self._entries = dict(state.producers)
        self._ended = [list(each) for each in state.transactions.snapshot()]
        self._ids = sorted(self._entries)
        self._done = 0
        self._early: dict[int, bytes] = {}
        self._rows: list[bytes] = []

    @property
    def left(self) -> int:
        """Return how many producers are not encoded yet."""
        return len(self._ids) - self._done

    def keep(self, producer_id: int) -> None:
        """Keep a producer's entry as it is, since it is about to change."""
        entry = self._entries.pop(producer_id, None)
        if entry is not None:
            self._early[producer_id] = _row(producer_id, entry)

    def encode_some(self, count: int) -> None:
        """Encode so many more producers."""
        for producer_id in self._ids[self._done : self._done + count]:
            entry = self._entries.pop(producer_id, None)
            self._rows.append(
                self._early.pop(producer_id) if entry is None else _row(producer_id, entry)
            )
        self._done = min(self._done + count, len(self._ids))

    def encoded(self) -> bytes:
        """Return what ``ProducerState.restore`` takes. All must be encoded."""
        packer = msgpack.Packer()
        head = packer.pack_array_header(3) + packer.pack(_VERSION)
        head += packer.pack_array_header(len(self._rows))
        body = b"".join([head, *self._rows, packer.pack(self._ended)])
        return zlib.crc32(body).to_bytes(4, "big") + body


def _row(producer_id: int, entry: ProducerEntry) -> bytes:
    row: bytes = msgpack.packb(
        [
            producer_id,
            entry.epoch,
            entry.seen_ms,
            entry.batches,
            entry.txn_first_offset,
            entry.coordinator_epoch,
            entry.marker_offset,
            entry.marker_number,
        ]
    )
    return row


def _entry(row: list[Any]) -> ProducerEntry:
    _, epoch, seen_ms, batches, *transaction = row
    remembered = [RememberedBatch(*batch) for batch in batches]
    return ProducerEntry(epoch, seen_ms, remembered, *transaction)


def _is_before(sequence: int, other: int) -> bool:
    return 0 < ((other - sequence) & SEQUENCE_MAX) < 2**30
