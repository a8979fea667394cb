"""[A1]: at one offset of a partition all who look see one value; acknowledgements look too."""

from __future__ import annotations

from simulation.checkers.violation import Rules, Violation, indexes, shown
from simulation.history import History, Op


def check(history: History, rules: Rules) -> list[Violation]:
    """Find two different values at one offset, by any poll or acknowledgement that counts."""
    if rules.loss_permitted:
        return []
    found: list[Violation] = []
    for key in dict.fromkeys((*history.reads, *history.writes)):
        at: dict[int, dict[bytes | None, Op]] = {}
        for op, offset, value in history.reads.get(key, ()):
            at.setdefault(offset, {}).setdefault(value, op)
        if rules.acks_count:
            for sent, write in history.writes.get(key, {}).items():
                if write.offset is not None:
                    at.setdefault(write.offset, {}).setdefault(sent, write.op)
        for offset, values in sorted(at.items()):
            if len(values) > 1:
                text = f"offset {offset} held {' and '.join(shown(value) for value in values)}"
                ops = indexes(*values.values())
                found.append(Violation("A1", "one_value_at_an_offset", text, key, (offset,), ops))
    return found
