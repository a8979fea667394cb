"""[A16]: a consumer that was not moved never goes back behind its last poll."""

from __future__ import annotations

from simulation.checkers.steps import steps
from simulation.checkers.violation import Rules, Violation, indexes
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Find steps to the same offset or a lower one."""
    found: list[Violation] = []
    for step in steps(history, rules):
        if step.within or step.after > step.before:
            continue
        text = f"{step.op} went from {step.before} back to {step.after}"
        ops = indexes(step.op, step.previous)
        offsets = (step.before, step.after)
        found.append(Violation("A16", "no_step_back_between_polls", text, step.key, offsets, ops))
    return found
