"""[A14]: within one poll offsets of a partition only grow."""

from __future__ import annotations

from simulation.checkers.steps import steps
from simulation.checkers.violation import Rules, Violation, indexes
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Find steps to the same offset or a lower one."""
    found: list[Violation] = []
    for step in steps(history, rules):
        if not step.within or step.after > step.before:
            continue
        text = f"{step.op} went from {step.before} back to {step.after}"
        ops = indexes(step.op, step.previous)
        offsets = (step.before, step.after)
        found.append(Violation("A14", "no_repeat_within_a_poll", text, step.key, offsets, ops))
    return found
