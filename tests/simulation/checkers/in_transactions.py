"""Checkers of transactions share what was sent in them and what of it was seen.

A transaction is one operation of several (Jepsen's way), or one that its sends name; of a shared
one the sends are those of its winners.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simulation.history import History, Key, MicroOp, Op


class Sent(NamedTuple):
    """It is one value that a transaction sent."""

    op: Op
    key: Key
    value: bytes
    offset: int | None
    """The place that the acknowledgement names."""
    seen: Op | None
    """The first poll that showed it to somebody who is shown only what is decided."""


def sends_of(history: History, txn: Op) -> list[Sent]:
    """Return a transaction's values, in order; tombstones cannot be told apart and are left out."""
    sends = []
    for op, mop in _mops_of(txn):
        if mop.kind == "send" and mop.value is not None and op.outcome != "fail":
            key = mop.topic, mop.partition
            seen = history.seen.get(key, {}).get(mop.value)
            first = None if seen is None else min(seen.values(), key=_index)
            sends.append(Sent(op, key, mop.value, mop.offset, first))
    return sends


def _mops_of(txn: Op) -> Iterator[tuple[Op, MicroOp]]:
    for whole in (txn, *txn.winners):
        for op in (whole, *whole.parts):
            for mop in op.mops:
                yield op, mop


def _index(op: Op) -> int:
    return op.index
