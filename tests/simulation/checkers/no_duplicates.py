"""[A2]: an idempotent producer's value is stored once.

Without idempotence a retry may store a batch again; rules say which holds. Only polls count: an
acknowledgement of another offset than the stored one is [A29].
"""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation, indexes, shown
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Find a value polled at two offsets or more of its partition."""
    if not rules.idempotent or rules.loss_permitted:
        return []
    found: list[Violation] = []
    for key, values in history.seen.items():
        for value, places in values.items():
            if len(places) > 1:
                offsets = tuple(sorted(places))
                text = f"{shown(value)} is stored at {', '.join(map(str, offsets))}"
                ops = indexes(*places.values())
                found.append(Violation("A2", "no_duplicates", text, key, offsets, ops))
    return found
