"""[A13]: within one poll no known record is left out between two others."""

from __future__ import annotations

from simulation.checkers.steps import steps
from simulation.checkers.violation import Rules, Violation, indexes, some
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Find steps over offsets at which a record is known to be."""
    found: list[Violation] = []
    for step in steps(history, rules):
        if not step.within or step.after <= step.before:
            continue
        skipped = history.order(step.key, acks=rules.acks_count).between(step.before, step.after)
        skipped = [offset for offset in skipped if not rules.may_be_gone(step.key, offset)]
        if skipped:
            text = f"{step.op} went from {step.before} to {step.after}, past {some(skipped)}"
            ops = indexes(step.op, step.previous)
            found.append(
                Violation("A13", "no_skip_within_a_poll", text, step.key, tuple(skipped), ops)
            )
    return found
