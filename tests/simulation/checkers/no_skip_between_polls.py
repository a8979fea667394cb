"""[A15]: a consumer that was not moved goes on where its last poll ended and leaves nothing out."""

from __future__ import annotations

from simulation.checkers.steps import steps
from simulation.checkers.violation import Rules, Violation, indexes, some
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Find steps over offsets at which a record is known to be."""
    found: list[Violation] = []
    for step in steps(history, rules):
        if step.within or step.after <= step.before:
            continue
        skipped = history.order(step.key, acks=rules.acks_count).between(step.before, step.after)
        skipped = [offset for offset in skipped if not rules.may_be_gone(step.key, offset)]
        if skipped:
            text = f"{step.op} went from {step.before} to {step.after}, past {some(skipped)}"
            ops = indexes(step.op, step.previous)
            found.append(
                Violation("A15", "no_skip_between_polls", text, step.key, tuple(skipped), ops)
            )
    return found
