"""[A27]: a value is read from the partition to which it was written, and comes from somebody.

What is read at an offset that holds no record is [A26]'s.
"""

from __future__ import annotations

from simulation.checkers.violation import Holes, Rules, Violation, name_of, shown
from simulation.history import History, place_of


def check(history: History, rules: Rules, holes: Holes | None = None) -> list[Violation]:
    """Find polled values that belong to another partition, or that nobody sent."""
    found: list[Violation] = []
    owners = {value: key for key, values in history.writes.items() for value in values}
    for key, reads in history.reads.items():
        writes = history.writes.get(key, {})
        empty = () if holes is None else holes.get(key, ())
        told: set[bytes] = set()
        for op, offset, value in reads:
            if value is None or value in writes or value in told or offset in empty:
                continue
            owner = owners.get(value) or place_of(value)
            if owner is not None and owner != key:
                text = f"{op} read {shown(value)} of {name_of(owner)} at {offset}"
            elif rules.complete:
                text = f"{op} read {shown(value)} at {offset}, which nobody sent"
            else:
                continue
            told.add(value)
            promise = "delivered_where_written"
            found.append(Violation("A27", promise, text, key, (offset,), (op.index,)))
    return found
