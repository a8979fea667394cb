"""A partition that compacts has a canon: what is left may differ, what counts may not.

Each replica cleans its log for itself, so replicas differ in which old records they still have. A
log equals the canon up to an offset when every record that it has below is the one that was
committed there, and every one that it lacks has been *superseded*: a newer record of its key is
committed, or it is a tombstone itself. Offsets never move. Whole batches that go leave a hole, a
batch without records, and holes that meet are one.

A batch that was found equal once is known again by its header: replicas share most of them.

Markers and records of aborted transactions are *void*: they supersede nothing, and may go. What is
not decided yet stays, whatever else was written under its key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError, parse_header
from oncelog_protocol.records.control import ControlType, decode_marker
from oncelog_protocol.records.decode import decode_batch
from simulation.checkers.newest_values_kept import Compacted, Kept
from simulation.log_view import Batch, Canon, LogView

__all__ = ["CompactedCanon", "kept_in"]


class _Record(NamedTuple):
    epoch: int
    key: bytes | None
    value: bytes | None


class CompactedCanon(Canon):
    """See ``Canon``."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[int, _Record] = {}
        self.offsets: list[int] = []
        """Of ``records``, in order, as they were committed."""
        self._newest: dict[bytes, int] = {}
        """The offset of the last record of each key."""
        self._equal: dict[Batch, tuple[int, ...]] = {}
        """Batches that were found equal, with the offsets that they hold."""
        self._void: set[int] = set()
        self._open: dict[int, dict[int, bytes | None]] = {}
        """By producer: offsets and keys of what is not decided yet."""
        self._undecided: set[int] = set()
        self._ends: dict[int, list[tuple[int, bool]]] = {}
        """By producer: where its transactions ended, and whether they were aborted."""

    def extend(self, view: LogView, upto: int) -> None:
        """See ``Canon``; what ``view`` has cleaned away already was never there for anybody."""
        before = len(self.batches)
        super().extend(view, upto)
        for batch in self.batches[before:]:
            try:
                data = view.batch_bytes(view.index(batch))
                columns = decode_batch(data, verify=False)
                ended = self._ended(columns.header, data)
            except (CorruptBatchError, LookupError):
                continue  # what it held cannot be asked for
            keys = columns.keys or [None] * len(columns)
            offsets = columns.offsets()
            for offset, key, value in zip(offsets, keys, columns.values, strict=True):
                self.records[offset] = _Record(batch.epoch, key, value)
                self.offsets.append(offset)
                if ended:
                    self._void.add(offset)
                elif columns.header.is_transactional:
                    self._open.setdefault(columns.header.producer_id, {})[offset] = key
                    self._undecided.add(offset)
                elif key is not None:
                    self._newest[key] = offset
            self._equal[batch] = tuple(offsets)

    def _ended(self, header: BatchHeader, data: bytes) -> bool:
        """Return whether a batch is a marker; what it ends counts from now on, or is void."""
        if not header.is_control:
            return False
        marker = decode_marker(data, verify=False)
        aborted = marker.control_type is not ControlType.COMMIT
        self._ends.setdefault(marker.producer_id, []).append((header.base_offset, aborted))
        for offset, key in self._open.pop(marker.producer_id, {}).items():
            self._undecided.discard(offset)
            if aborted:
                self._void.add(offset)
            elif key is not None:
                self._newest[key] = max(offset, self._newest.get(key, -1))
        return True

    def is_superseded(self, offset: int) -> bool:
        """Return whether compaction may take away the record at an offset."""
        record = self.records.get(offset)
        if record is None or offset in self._void:
            return True
        if record.key is None or offset in self._undecided:
            return False
        return record.value is None or self._newest[record.key] != offset

    def superseded(self) -> set[int]:
        """Return all such offsets, with those that were gone before anybody looked."""
        return {offset for offset in range(self.start, self.end) if self.is_superseded(offset)}

    def match(self, view: LogView) -> None:
        """See ``Canon``."""
        if view.end <= view.matched or self.end <= view.matched:
            return
        if view.matched < self.start:
            view.matched = min(self.start, view.end)
        for index in range(bisect_left(view.bases, view.matched), len(view.batches)):
            batch = view.batches[index]
            if batch.base >= self.end:
                break
            held = self._held(view, index, batch)
            if held is None or not self._all_there(view.matched, batch.next, held):
                return
            view.matched = min(batch.next, self.end)  # a hole may reach further

    def _held(self, view: LogView, index: int, batch: Batch) -> tuple[int, ...] | None:
        """Return the offsets of a batch if its records are the committed ones, else None."""
        held = self._equal.get(batch)
        if held is not None:
            return held
        try:
            kept = kept_in(view, index)
        except LookupError:
            return None
        for record in kept:
            committed = self.records.get(record.offset)
            if committed is None and self._may_have_gone(view, index, record):
                # Whoever the canon was taken from had cleaned it away by then.
                committed = self.records[record.offset] = _Record(batch.epoch, *record[1:])
            if committed != (batch.epoch, record.key, record.value):
                return None
        held = self._equal[batch] = tuple(record.offset for record in kept)
        return held

    def _may_have_gone(self, view: LogView, index: int, record: Kept) -> bool:
        """Return whether a record that the canon never had is superseded or void, which is noted
        then."""
        if self._newest.get(record.key or b"", -1) > record.offset:
            return True
        header = parse_header(view.batch_bytes(index))
        ends = self._ends.get(header.producer_id, []) if header.is_transactional else []
        if next((aborted for at, aborted in ends if at > record.offset), False):
            self._void.add(record.offset)
            return True
        return False

    def _all_there(self, low: int, high: int, held: tuple[int, ...]) -> bool:
        """Return whether what is not in ``held`` of [low, high) may be away."""
        first = bisect_left(self.offsets, low)
        last = bisect_left(self.offsets, high)
        if self.offsets[first:last] == list(held):
            return True
        return all(
            offset in held or self.is_superseded(offset) for offset in self.offsets[first:last]
        )

    def compacted(self, views: Mapping[int, tuple[LogView, int]], log_start: int) -> Compacted:
        """Return what is committed, and what replicas hold of it, for the checker of [A33].

        :param views: by broker, its log and up to which offset to look.
        """
        uncounted = self._void | self._undecided
        committed = [
            Kept(offset, *self.records[offset][1:])
            for offset in sorted(self.records)
            if offset not in uncounted
        ]
        logs = {
            broker: [
                record
                for index, batch in enumerate(view.batches)
                if batch.next <= min(high, self.end)
                for record in kept_in(view, index)
                if record.offset not in uncounted
            ]
            for broker, (view, high) in views.items()
        }
        return Compacted(committed, logs, log_start)


def kept_in(view: LogView, index: int) -> list[Kept]:
    """Return the records of a batch, by its number. :raises LookupError: it cannot be read."""
    try:
        columns = decode_batch(view.batch_bytes(index))
    except CorruptBatchError as error:
        raise LookupError(str(error)) from error
    keys = columns.keys or [None] * len(columns)
    return [Kept(*record) for record in zip(columns.offsets(), keys, columns.values, strict=True)]
