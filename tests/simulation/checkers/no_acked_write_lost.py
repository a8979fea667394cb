"""[A3]: an acknowledged record is read by whoever reads as far as it lies.

*Acknowledged* includes sends that ended unknown but of which a reader saw a record: a batch and a
transaction are stored whole or not at all. A value is lost when someone read beyond its offset and
nobody ever read it; where nobody read so far, it is [A4]. A reader that is told that records it was
handed are gone from the log has found a loss too.
"""

from __future__ import annotations

from collections.abc import Mapping

from simulation.checkers.violation import Holes, Rules, Violation, name_of, shown, some
from simulation.history import History, Key, Op, Write


def check(history: History, rules: Rules, holes: Holes | None = None) -> list[Violation]:
    """Find values that must be there below the highest offset read, and that nobody read."""
    if rules.loss_permitted:
        return []
    found = [_told(op) for op in history.reading if op.f == "assign" and op.invoke.note == TOLD]
    for key, writes in history.writes.items():
        seen = history.seen.get(key, {})
        bound = history.ends.get(key, -1)
        known = () if holes is None else holes.get(key, ())
        lost: list[tuple[int, bytes, Write]] = []
        for value, write in writes.items():
            if value in seen or not _happened(history, rules, write):
                continue
            offset = write.offset
            if offset is None:
                offset = _inferred(write, key, seen)
            if offset is None or offset > bound or offset in known:
                continue
            if not rules.may_be_gone(key, offset):
                lost.append((offset, value, write))
        if lost:
            lost.sort(key=lambda item: item[0])
            listed = some([f"{shown(value)} at {offset}" for offset, value, _ in lost])
            text = f"{len(lost)} values never read, though offset {bound} was: {listed}"
            offsets = tuple(offset for offset, _, _ in lost)
            ops = tuple(sorted({write.op.index for _, _, write in lost}))
            found.append(Violation("A3", "no_acked_write_lost", text, key, offsets, ops))
    return found


TOLD = "truncated"


def _told(op: Op) -> Violation:
    mop = op.mops[0]
    key = mop.topic, mop.partition
    text = f"{op}: records that were read are gone from {name_of(key)}, which ends at {mop.offset}"
    return Violation("A3", "no_acked_write_lost", text, key, (mop.offset or 0,), (op.index,))


def _happened(history: History, rules: Rules, write: Write) -> bool:
    if write.op.fate == "ok" and rules.acks_count:
        return True
    return write.op.fate != "fail" and write.op.index in history.proven


def _inferred(write: Write, key: Key, seen: Mapping[bytes, Mapping[int, Op]]) -> int | None:
    """Return where a record of a batch must be, by another record of the batch that was read."""
    if write.op.f != "send":
        return None
    for place, mop in enumerate(write.op.mops):
        if mop.value is not None and mop.value in seen and (mop.topic, mop.partition) == key:
            return min(seen[mop.value]) - place + write.place
    return None
