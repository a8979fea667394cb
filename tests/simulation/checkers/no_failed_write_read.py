"""[A5]: nobody reads what definitely was not written: a refused send, an aborted transaction.

A transaction whose commit nobody ever asked for is as good as aborted, and so is what a writer of a
shared one wrote who is not among its winners.
"""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation, indexes, shown
from simulation.history import History, Op


def check(history: History, rules: Rules) -> list[Violation]:
    """Find values of failed operations in polls that were ok."""
    found: list[Violation] = []
    for key, reads in history.safe_reads.items():
        writes = history.writes.get(key, {})
        told: set[bytes] = set()
        for op, offset, value in reads:
            write = None if value is None else writes.get(value)
            if value is None or write is None or write.op.fate != "fail" or value in told:
                continue
            transactional = write.op.f == "txn" or write.op.txn is not None
            if op.outcome != "ok" or (transactional and not rules.read_committed):
                continue
            told.add(value)
            what = f"{write.op} failed for certain"
            if write.op.txn is not None and write.op.outcome != "fail":
                what = f"{write.op.txn} {_ended(write.op.txn)}"
            text = f"{op} read {shown(value)} at {offset}, but {what}"
            ops = indexes(op, write.op, write.op.txn)
            found.append(Violation("A5", "no_failed_write_read", text, key, (offset,), ops))
    return found


def _ended(txn: Op) -> str:
    return "was aborted" if txn.outcome == "fail" else "was not to be committed"
