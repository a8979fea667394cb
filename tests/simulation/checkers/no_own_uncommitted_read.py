"""[A6]: nobody at read_committed polls what is not committed yet, least of all its own.

Where a transaction is one operation, its own polls are looked at. Where its sends are operations of
their own, a poll by anybody that ended before the commit was asked for, or before the last send of
the transaction began, came too early.
"""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation, indexes, shown
from simulation.history import History, Op

PROMISE = "no_own_uncommitted_read"


def check(history: History, rules: Rules) -> list[Violation]:
    """Find values of a transaction in polls before its commit."""
    if not rules.read_committed:
        return []
    return [*_own(history), *_early(history)]


def _own(history: History) -> list[Violation]:
    found: list[Violation] = []
    for op in history.sending:
        if op.f != "txn":
            continue
        own = {(m.topic, m.partition, m.value) for m in op.mops if m.kind == "send"}
        for mop in op.mops:
            if mop.kind == "poll" and (mop.topic, mop.partition, mop.value) in own:
                assert mop.offset is not None
                text = f"{op} read its own {shown(mop.value)} before it was committed"
                key = mop.topic, mop.partition
                found.append(Violation("A6", PROMISE, text, key, (mop.offset,), (op.index,)))
    return found


def _early(history: History) -> list[Violation]:
    found: list[Violation] = []
    for key, reads in history.safe_reads.items():
        writes = history.writes.get(key, {})
        told: set[bytes] = set()
        for op, offset, value in reads:
            write = None if value is None else writes.get(value)
            if value is None or write is None or write.op.txn is None or value in told:
                continue
            begun = _commits_after(write.op.txn)
            if begun is None or op.ended is None or op.ended >= begun:
                continue
            told.add(value)
            text = f"{op} read {shown(value)} at {offset} before {write.op.txn} was committed"
            ops = indexes(op, write.op, write.op.txn)
            found.append(Violation("A6", PROMISE, text, key, (offset,), ops))
    return found


def _commits_after(txn: Op) -> int | None:
    """Return the place in the history before which it cannot have been committed."""
    whole = txn.wins or txn
    if whole.asked is not None:
        return whole.asked
    if whole.outcome == "fail":
        return None  # that it was read at all is [A5]'s
    return max((part.index for part in whole.parts), default=None)
