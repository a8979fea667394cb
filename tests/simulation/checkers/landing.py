"""Checkers of the order of sends share where sends have landed."""

from __future__ import annotations

from collections.abc import Iterator

from simulation.checkers.violation import Rules
from simulation.history import History, Key, MicroOp, Op


def landing(history: History, rules: Rules, mop: MicroOp) -> int | None:
    """Return the first offset at which a value that was sent is known to be. Of a tombstone, and
    where compaction goes on, nobody knows whether it was stored once before."""
    key = mop.topic, mop.partition
    if mop.value is None or (rules.superseded.get(key) and not rules.idempotent):
        return None
    places = history.seen.get(key, {}).get(mop.value, ())
    if rules.acks_count and mop.offset is not None:
        return min(mop.offset, *places) if places else mop.offset
    return min(places) if places else None


def sends_within(
    history: History, rules: Rules
) -> Iterator[tuple[Op, Key, tuple[MicroOp, int], tuple[MicroOp, int]]]:
    """Consecutive sends of one operation to one partition, with the offsets where they landed."""
    for op in history.sending:
        if len(op.mops) < 2 or op.outcome == "fail":
            continue
        last: dict[Key, tuple[MicroOp, int]] = {}
        for mop in op.mops:
            if mop.kind != "send":
                continue
            offset = landing(history, rules, mop)
            if offset is None:
                continue
            key = mop.topic, mop.partition
            before = last.get(key)
            if before is not None:
                yield op, key, before, (mop, offset)
            last[key] = (mop, offset)
