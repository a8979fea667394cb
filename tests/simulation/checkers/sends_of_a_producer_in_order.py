"""[A12]: acknowledged sends of one producer to one partition land in the order of sending.

What ended unknown may still land later than what was sent after it; it is not compared.
"""

from __future__ import annotations

from simulation.checkers.landing import landing
from simulation.checkers.violation import Rules, Violation, indexes, shown
from simulation.history import History, Key, MicroOp, Op


def check(history: History, rules: Rules) -> list[Violation]:
    """Find a later operation's first record before the last record of an earlier operation."""
    if not rules.ordered or rules.loss_permitted:
        return []
    found: list[Violation] = []
    newest: dict[tuple[tuple[str, str], Key], tuple[int, Op, MicroOp]] = {}
    for op in history.sending:
        if op.outcome != "ok":
            continue
        first, last = _ends(history, rules, op)
        client = op.client
        for key, (low, mop) in first.items():
            before = newest.get((client, key))
            if before is not None and low <= before[0]:
                text = (
                    f"{op} sent {shown(mop.value)}, which is at {low}, after {before[1]} had sent"
                    f" {shown(before[2].value)}, which is at {before[0]}"
                )
                promise = "sends_of_a_producer_in_order"
                ops = indexes(op, before[1])
                found.append(Violation("A12", promise, text, key, (low, before[0]), ops))
            high, highest = last[key]
            if before is None or high > before[0]:
                newest[client, key] = (high, op, highest)
    return found


Ends = dict[Key, tuple[int, MicroOp]]


def _ends(history: History, rules: Rules, op: Op) -> tuple[Ends, Ends]:
    """Return the lowest and the highest record of an operation, by partition."""
    first: Ends = {}
    last: Ends = {}
    for mop in op.mops:
        if mop.kind != "send":
            continue
        offset = landing(history, rules, mop)
        if offset is None:
            continue
        key = mop.topic, mop.partition
        if key not in first or offset < first[key][0]:
            first[key] = (offset, mop)
        if key not in last or offset > last[key][0]:
            last[key] = (offset, mop)
    return first, last
