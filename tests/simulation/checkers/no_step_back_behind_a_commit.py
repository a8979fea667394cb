"""[A16], under subscribe: who takes a partition over begins where the group has committed.

Rules: a member that a rebalance gave a partition begins at the committed offset, which is one that
the register may hold at that time (see ``registers``); it may repeat what was not committed, and
nothing else. With nothing committed its reset policy decides, and a position that fell out of range
since is not judged.
"""

from __future__ import annotations

from simulation.checkers.registers import registers
from simulation.checkers.violation import Rules, Violation, indexes, some
from simulation.history import History, Key, Op


def check(history: History, rules: Rules) -> list[Violation]:
    """Find positions of new owners that nobody had committed."""
    if rules.loss_permitted:
        return []
    found: list[Violation] = []
    asked: dict[tuple[tuple[str, str], Key], Op] = {}
    taken: dict[tuple[tuple[str, str], Key], Op] = {}
    for op in history.ops:
        if op.f == "committed" and op.outcome == "ok":
            for mop in op.mops:
                asked[op.client, (mop.topic, mop.partition)] = op
        if op.f != "assign" or op.client not in history.groups:
            continue
        mop, reason = op.mops[0], op.invoke.note
        key = mop.topic, mop.partition
        if reason == "subscribe":
            taken[op.client, key] = op
        elif reason != "found":
            taken.pop((op.client, key), None)
        begun = taken.get((op.client, key))
        if begun is not None and mop.offset is not None:
            del taken[op.client, key]
            since = asked.get((op.client, key), begun)
            found += _judged(history, rules, op, key, min(since.index, begun.index))
    return found


def _judged(history: History, rules: Rules, op: Op, key: Key, began: int) -> list[Violation]:
    group = history.groups[op.client]
    register = registers(history, rules).get((group, key))
    offset = op.mops[0].offset
    if register is None or offset is None:
        return []
    allowed = register.allowed(op, began, op.index)
    if allowed.nothing or not allowed.offsets or offset >= allowed.offsets[0]:
        return []
    text = f"{op} begins at {offset}; committed for group {group} is {some(allowed.offsets)}"
    ops = indexes(op, *(each.op for each in allowed.accesses))
    return [Violation("A16", "no_step_back_behind_a_commit", text, key, (offset,), ops)]
