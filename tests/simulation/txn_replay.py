"""The committed batches of a partition tell of its transactions: this is a replay of our own.

Rules: a transactional batch opens a transaction of its producer, or goes on with it; a marker of
the producer ends it. Batches come in the order of their offsets and once each. What breaks a rule
of the protocol is returned in words, not raised: whoever replays knows what it proves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog_protocol.records.batch import CorruptBatchError, parse_header
from oncelog_protocol.records.control import ControlType, decode_marker
from oncelog_protocol.types import NO_TXN_NUMBER

__all__ = ["EndedTxn", "OpenTxn", "TxnReplay"]


@dataclass(slots=True)
class OpenTxn:
    """It has no marker yet."""

    producer_id: int
    epoch: int
    first_offset: int
    offsets: list[int] = field(default_factory=list)


class EndedTxn(NamedTuple):
    """A marker has ended it."""

    producer_id: int
    marker_epoch: int
    commit: bool
    marker_offset: int
    coordinator_epoch: int
    data_epoch: int
    """-1: a marker without data before it."""
    first_offset: int
    """The data's first; -1 without any."""
    offsets: tuple[int, ...] = ()
    """The data's."""
    number: int = NO_TXN_NUMBER
    """The marker's, if it has one: the epoch is that of the data then."""

    @property
    def key(self) -> tuple[int, ...]:
        """Return what is the same in all partitions of the transaction."""
        pair = self.producer_id, self.marker_epoch
        return pair if self.number < 0 else (*pair, self.number)


class TxnReplay:
    """It has the transactions of one partition, as far as its batches were taken."""

    def __init__(self) -> None:
        self.end = 0
        self.open: dict[int, OpenTxn] = {}
        """By producer."""
        self.ended: list[EndedTxn] = []
        self.holes: set[int] = set()
        """Offsets of markers and of aborted records."""
        self._epochs: dict[int, int] = {}
        self._numbers: dict[int, tuple[int, int]] = {}
        """By producer: epoch and number of its last marker that has one."""
        self._ends: list[int] = []
        self._stable: list[int] = []
        """By batch: where it ends, and below which offset all is decided then."""

    def take(self, data: bytes) -> str:
        """Take the next batch; return what is wrong with it, or nothing."""
        try:
            header = parse_header(data)
        except CorruptBatchError:
            return ""  # rot that nobody knows of yet
        self.end = header.next_offset
        said = ""
        if header.is_control:
            said = self._marker(data)
        elif header.producer_id >= 0:
            said = self._data(
                header.producer_id,
                header.producer_epoch,
                range(header.base_offset, header.next_offset),
                header.is_transactional,
            )
        self._ends.append(self.end)
        self._stable.append(min((t.first_offset for t in self.open.values()), default=self.end))
        return said

    def skip(self, next_offset: int) -> None:
        """Skip a batch that cannot be read any more."""
        self.end = next_offset
        self._ends.append(self.end)
        self._stable.append(min((t.first_offset for t in self.open.values()), default=self.end))

    def _data(self, producer_id: int, epoch: int, offsets: range, transactional: bool) -> str:
        known = self._epochs.get(producer_id, -1)
        self._epochs[producer_id] = max(known, epoch)
        opened = self.open.get(producer_id)
        if not transactional:
            return f"{offsets}: outside of the open transaction of {producer_id}" if opened else ""
        if opened is None:
            opened = self.open[producer_id] = OpenTxn(producer_id, epoch, offsets[0])
        opened.offsets.extend(offsets)
        if epoch < known:
            return f"{offsets}: epoch {epoch} of producer {producer_id} after epoch {known}"
        if epoch != opened.epoch:
            return (
                f"{offsets}: epoch {epoch} of producer {producer_id} joins the transaction of epoch"
                f" {opened.epoch} at {opened.first_offset}"
            )
        return ""

    def _marker(self, data: bytes) -> str:
        try:
            marker = decode_marker(data, verify=False)
        except CorruptBatchError as error:
            return f"a control batch that is no marker: {error}"
        self.holes.add(marker.offset)
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        known = self._epochs.get(producer_id, -1)
        self._epochs[producer_id] = max(known, epoch)
        opened = self.open.pop(producer_id, None)
        commit = marker.control_type is ControlType.COMMIT
        if opened is not None and not commit:
            self.holes.update(opened.offsets)
        self.ended.append(
            EndedTxn(
                producer_id,
                epoch,
                commit,
                marker.offset,
                marker.coordinator_epoch,
                -1 if opened is None else opened.epoch,
                -1 if opened is None else opened.first_offset,
                () if opened is None else tuple(opened.offsets),
                marker.number,
            )
        )
        what = f"marker at {marker.offset} of producer {producer_id} has epoch {epoch}"
        if marker.number >= 0:
            last, self._numbers[producer_id] = (
                self._numbers.get(producer_id, (-1, -1)), (epoch, marker.number)
            )  # fmt: skip
            if (epoch, marker.number) <= last or epoch < known:
                return f"{what} and number {marker.number} after {last}"
            if opened is not None and epoch < opened.epoch:
                return f"{what}, that of its data is {opened.epoch}"
            return ""
        if opened is not None and epoch <= opened.epoch:
            return f"{what}, that of its data is {opened.epoch}"
        if epoch <= known:
            return f"{what} after {known}"
        return ""

    def stable_at(self, high_watermark: int) -> int:
        """Return below which offset all was decided, when that much was committed."""
        index = bisect_right(self._ends, high_watermark) - 1
        return high_watermark if index < 0 else min(high_watermark, self._stable[index])

    def undecided_at(self, high_watermark: int) -> Iterator[int]:
        """Yield the offsets below it that were not decided when that much was committed."""
        late = [txn.offsets for txn in self.ended if txn.marker_offset >= high_watermark]
        for offsets in (*(txn.offsets for txn in self.open.values()), *late):
            yield from (offset for offset in offsets if offset < high_watermark)

    def is_open(self, offset: int) -> bool:
        """Return whether an offset belongs to a transaction that is not decided."""
        return any(offset in txn.offsets for txn in self.open.values())
