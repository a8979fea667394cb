"""[A11]: within one operation, later sends to a partition land behind earlier ones."""

from __future__ import annotations

from simulation.checkers.landing import sends_within
from simulation.checkers.violation import Rules, Violation, shown
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """A later send of an operation at a lower offset."""
    if rules.loss_permitted:
        return []
    found: list[Violation] = []
    for op, key, (first, low), (second, high) in sends_within(history, rules):
        if high <= low:
            text = (
                f"{op} sent {shown(first.value)} (at {low}) and then {shown(second.value)}, which"
                f" is at {high}"
            )
            promise = "sends_of_an_operation_in_order"
            found.append(Violation("A11", promise, text, key, (high, low), (op.index,)))
    return found
