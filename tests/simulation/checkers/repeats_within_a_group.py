"""[A17]: a group was handed these records twice. For the record: plain groups read at least once.

That the repeats are bounded by the last commit is [A16]'s.
"""

from __future__ import annotations

from simulation.checkers.handed_out_within_a_group import handed_out
from simulation.checkers.violation import Rules, Violation, indexes, some
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Count records that members of one group were handed more than once, by partition."""
    found: list[Violation] = []
    for (group, key), handed in handed_out(history, rules).items():
        again = sorted(offset for offset, ops in handed.times.items() if len(ops) > 1)
        if again:
            most = max(len(handed.times[offset]) for offset in again)
            text = (
                f"group {group} was handed {len(again)} of {len(handed.times)} records again, up"
                f" to {most} times: {some(again)}"
            )
            ops = indexes(*handed.times[again[0]])
            found.append(
                Violation("A17", "repeats_within_a_group", text, key, tuple(again[:100]), ops)
            )
    return found
