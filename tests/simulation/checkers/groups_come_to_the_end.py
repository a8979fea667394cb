"""[A28], the part of groups: once everything is healed, a group reads on to the end of its topics.

A group that hangs in a rebalance, whose coordinator never finishes loading, or whose partitions
nobody owns, stops somewhere. Rules say which groups had members to the end, and of what.
"""

from __future__ import annotations

from simulation.checkers.handed_out_within_a_group import Handed, handed_out
from simulation.checkers.violation import Rules, Violation, indexes, shown, some
from simulation.history import History


def check(history: History, rules: Rules) -> list[Violation]:
    """Find acknowledged records behind the last one that a group was handed."""
    if not rules.acks_count:
        return []
    found: list[Violation] = []
    handed_to = handed_out(history, rules)
    for group, keys in sorted(rules.groups.items()):
        for key in sorted(keys):
            handed = handed_to.get((group, key), Handed())
            end = max(handed.times, default=-1) + 1
            waiting = sorted(
                (write.offset, value, write.op.index)
                for value, write in history.writes.get(key, {}).items()
                if write.offset is not None
                and write.op.fate == "ok"
                and write.offset >= end
                and not rules.may_be_gone(key, write.offset)
            )
            if waiting:
                listed = some([f"{shown(value)} at {offset}" for offset, value, _ in waiting])
                text = (
                    f"group {group} stands at {end}, {len(waiting)} acknowledged records wait:"
                    f" {listed}"
                )
                offsets = tuple(offset for offset, _, _ in waiting)
                ops = tuple(sorted({index for _, _, index in waiting} | set(_last(handed))))
                found.append(Violation("A28", "groups_come_to_the_end", text, key, offsets, ops))
    return found


def _last(handed: Handed) -> tuple[int, ...]:
    return indexes(handed.by)
