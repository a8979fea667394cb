"""What a log knows of its producers: the last batches of each, so that a retry is not a duplicate.

Pure: a function of the batches in the log, in their order (I14). The leader checks a batch here
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
- of a producer without state, forgotten after ``producer_id_expiration_ms`` or deleted with its
  records, any sequence is taken: nothing is known that it could contradict.

State is kept when the records it came from are deleted (KIP-360); it goes by time alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgpack

from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_protocol.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    OutOfOrderSequenceNumberError,
)
from oncelog_protocol.records.batch import BatchHeader

BATCHES_MAX = 5
"""As many as a producer has in flight to one partition; a smaller window would refuse retries."""

SEQUENCE_MAX = 2**31 - 1
_VERSION = 1
ANY_CONTENT = -1
"""Checksum of a batch whose own was replaced, when the broker wrote its time into it or when
compaction took records out of it."""


class RememberedBatch(NamedTuple):
    """One batch of a producer as the log holds it."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int
    """ms since 1970, of its newest record."""
    content: int
    """The batch's checksum: what tells it from another with the same sequences."""


def next_sequence(sequence: int, count: int = 1) -> int:
    """The sequence ``count`` after ``sequence``; wraps from 2^31 - 1 to 0."""
    return (sequence + count) & SEQUENCE_MAX


class ProducerEntry:
    """One producer in one partition."""

    __slots__ = ("batches", "epoch", "seen_ms")

    def __init__(self, epoch: int, seen_ms: int, batches: Iterable[RememberedBatch] = ()) -> None:
        self.epoch = epoch
        self.seen_ms = seen_ms
        """When its last batch was appended, by this broker's clock."""
        self.batches: list[RememberedBatch] = list(batches)
        """The oldest first, at most ``BATCHES_MAX``."""

    @property
    def last_sequence(self) -> int:
        """Of its last batch; -1 before the first one."""
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerState:
    """All producers of one log.

    :param window: how many batches are remembered; tests set it lower to see that this is noticed.
    """

    def __init__(self, *, window: int = BATCHES_MAX, compare_content: bool = True) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self._window = window
        self._compare_content = compare_content

    def check(self, header: BatchHeader, content: int) -> RememberedBatch | None:
        """May a client's batch be appended? The batch that it repeats, or None: append it.

        :raises InvalidProducerEpochError: the producer has a newer epoch here.
        :raises OutOfOrderSequenceNumberError: it does not follow what is there.
        :raises DuplicateSequenceNumberError: it was appended, longer ago than is remembered.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"producer {header.producer_id} has epoch {entry.epoch}, not"
                f" {header.producer_epoch}"
            )
        first = header.base_sequence
        if header.producer_epoch > entry.epoch and self._compare_content:
            if first != 0:
                raise OutOfOrderSequenceNumberError(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} with"
                    f" sequence {first} instead of 0"
                )
            return None
        last = entry.last_sequence
        if not entry.batches or first == next_sequence(last):
            return None
        return self._repeated(entry, header, content)

    def _repeated(self, entry: ProducerEntry, header: BatchHeader, content: int) -> RememberedBatch:
        first = header.base_sequence
        end = next_sequence(first, header.last_offset_delta)
        for batch in reversed(entry.batches):
            if batch.first_sequence == first and batch.last_sequence == end:
                if self._compare_content and content != batch.content != ANY_CONTENT:
                    raise OutOfOrderSequenceNumberError(
                        f"sequences {first} to {end} of producer {header.producer_id} are those of"
                        " another batch"
                    )
                return batch
        oldest = entry.batches[0].first_sequence
        # Half the circle of sequences is before the oldest one that is known, half behind.
        if len(entry.batches) == self._window and _is_before(end, oldest):
            raise DuplicateSequenceNumberError(
                f"sequences {first} to {end} of producer {header.producer_id} were written before"
                f" {oldest}, the oldest that is remembered"
            )
        raise OutOfOrderSequenceNumberError(
            f"producer {header.producer_id}: sequence {first} where"
            f" {next_sequence(entry.last_sequence)} was to come"
        )

    def applied(self, header: BatchHeader, now_ms: int, *, append_time: bool) -> None:
        """A batch with offsets is in the log."""
        if header.producer_id < 0:
            return
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
            entry.batches.clear()
        entry.seen_ms = now_ms
        entry.batches.append(batch)
        if len(entry.batches) > self._window:
            del entry.batches[0]

    def batches_since(self, producer_id: int, batch: RememberedBatch) -> int:
        """How many of the producer's remembered batches came after this one."""
        batches = self.producers[producer_id].batches
        return len(batches) - 1 - batches.index(batch)

    def expire(self, now_ms: int, after_ms: int) -> int:
        """Forget producers that were not heard of for ``after_ms``; returns how many."""
        gone = [pid for pid, entry in self.producers.items() if now_ms - entry.seen_ms > after_ms]
        for producer_id in gone:
            del self.producers[producer_id]
        return len(gone)

    def cut(self, end: int) -> list[int]:
        """The log now ends at ``end``: forget the batches behind it. Returns the producers of which
        nothing is left, though the log may hold older batches of theirs that were not remembered.
        """
        unknown = []
        for producer_id, entry in self.producers.items():
            while entry.batches and entry.batches[-1].last_offset >= end:
                del entry.batches[-1]
            if not entry.batches:
                unknown.append(producer_id)
        for producer_id in unknown:
            del self.producers[producer_id]
        return unknown

    def adopt(self, other: ProducerState, producer_ids: Iterable[int]) -> None:
        """Take over what another state says of these producers."""
        for producer_id in producer_ids:
            if (entry := other.producers.get(producer_id)) is not None:
                self.producers[producer_id] = entry

    def empty(self) -> ProducerState:
        """A state without producers that goes by the same rules."""
        return ProducerState(window=self._window, compare_content=self._compare_content)

    def contradiction(self, replayed: ProducerState, *, compacted: bool = False) -> str:
        """Where this state says other things than a replay of the log does (I14); empty: nowhere.

        What only one of the two remembers, since records were deleted or cut, is no contradiction,
        nor, of a ``compacted`` log, what went between a producer's last batch and others.
        """
        for producer_id, other in replayed.producers.items():
            entry = self.producers.get(producer_id)
            if entry is None:
                return f"producer {producer_id} is not known"
            if entry.epoch != other.epoch:
                return f"producer {producer_id}: epoch {entry.epoch}, the log has {other.epoch}"
            pairs = zip(reversed(entry.batches), reversed(other.batches), strict=False)
            for number, (one, two) in enumerate(pairs):
                if one[:4] != two[:4] and not (compacted and number):
                    return f"producer {producer_id}: {one}, the log has {two}"
        return ""

    # ---- snapshots

    def encode(self) -> bytes:
        """The whole state, for a ``.snapshot`` file; checked by :meth:`decode`."""
        rows = [
            [producer_id, entry.epoch, entry.seen_ms, [list(b) for b in entry.batches]]
            for producer_id, entry in sorted(self.producers.items())
        ]
        body: bytes = msgpack.packb([_VERSION, rows])
        return zlib.crc32(body).to_bytes(4, "big") + body

    def restore(self, data: bytes) -> None:
        """Replace the state by what :meth:`encode` gave.

        :raises CheckpointError: the bytes do not hold.
        """
        if len(data) < 5 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "big"):
            raise CheckpointError("producer snapshot: the checksum does not hold")
        try:
            version, rows = msgpack.unpackb(data[4:])
            if version != _VERSION:
                raise CheckpointError(f"producer snapshot: version {version!r}")
            self.producers = {row[0]: _entry(row) for row in rows}
        except (ValueError, TypeError, IndexError) as error:
            raise CheckpointError(f"producer snapshot: {error!r}") from None


def _entry(row: list[Any]) -> ProducerEntry:
    _, epoch, seen_ms, batches = row
    return ProducerEntry(epoch, seen_ms, [RememberedBatch(*batch) for batch in batches])


def _is_before(sequence: int, other: int) -> bool:
    return 0 < ((other - sequence) & SEQUENCE_MAX) < 2**30
