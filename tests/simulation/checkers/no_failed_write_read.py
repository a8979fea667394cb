"""A5: nobody reads what definitely was not written: a refused send, an aborted transaction."""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation, indexes, shown
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Values of failed operations in polls that were ok."""
    found: list[Violation] = []
    for key, reads in history.reads.items():
        writes = history.writes.get(key, {})
        told: set[bytes] = set()
        for op, offset, value in reads:
            write = None if value is None else writes.get(value)
            if value is None or write is None or write.op.outcome != "fail" or value in told:
                continue
            if op.outcome != "ok" or (write.op.f == "txn" and not rules.read_committed):
                continue
            told.add(value)
            text = f"{op} read {shown(value)} at {offset}, but {write.op} failed for certain"
            ops = indexes(op, write.op)
            found.append(Violation("A5", "no_failed_write_read", text, key, (offset,), ops))
    return found
