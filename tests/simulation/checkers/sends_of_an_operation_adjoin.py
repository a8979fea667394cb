"""[A10]: between two sends of one operation to one partition lie no values of others.

Report only: the log does not isolate writers from each other.
"""

from __future__ import annotations

from simulation.checkers.landing import sends_within
from simulation.checkers.violation import Rules, Violation, shown, some
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Consecutive sends of an operation with other known values in between."""
    found: list[Violation] = []
    for op, key, (first, low), (second, high) in sends_within(history, rules):
        between = history.order(key, acks=rules.acks_count).between(low, high)
        if between:
            text = (
                f"{op} sent {shown(first.value)} (at {low}) and then {shown(second.value)} (at"
                f" {high}); between them lie {some(between)}"
            )
            promise = "sends_of_an_operation_adjoin"
            found.append(Violation("A10", promise, text, key, (low, high), (op.index,)))
    return found
