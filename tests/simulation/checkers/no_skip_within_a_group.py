"""[A15], under subscribe: what a group has passed, some member of it was handed.

A partition that changes hands goes on where its committed offset is, and nobody commits what nobody
was handed: at least once. Rules: a group answers for what lies between the offset where it began
and the one up to which it has read or committed. Where somebody from outside moved its committed
offset, that is his business.
"""

from __future__ import annotations

from simulation.checkers.handed_out_within_a_group import handed_out
from simulation.checkers.violation import Rules, Violation, indexes, some
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Find known records that a group went past without seeing them."""
    if rules.loss_permitted:
        return []
    found: list[Violation] = []
    for (group, key), handed in handed_out(history, rules).items():
        if handed.start is None or handed.moved:
            continue
        known = history.order(key, acks=rules.acks_count).between(handed.start - 1, handed.end)
        skipped = [
            offset
            for offset in known
            if offset not in handed.times and not rules.may_be_gone(key, offset)
        ]
        if skipped:
            text = f"group {group} has passed {handed.end - 1} without {some(skipped)}"
            ops = indexes(handed.by)
            promise = "no_skip_within_a_group"
            found.append(Violation("A15", promise, text, key, tuple(skipped), ops))
    return found
