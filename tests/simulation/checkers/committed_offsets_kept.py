"""[A24]: a group's commit stays, and only members of the newest generation commit.

Rules: an offset that was acknowledged is what whoever asks afterwards is told, until another commit
has come in between; see ``registers``. A member that was outlived by a newer generation, of which
somebody else has got its assignment since it got its own, must not be able to commit any more.
"""

from __future__ import annotations

from simulation.checkers.registers import registers
from simulation.checkers.violation import Rules, Violation, indexes, some
from simulation.history import History, Key, Op

PROMISE = "committed_offsets_kept"


def check(history: History, rules: Rules) -> list[Violation]:
    """Find answers that forget a commit, and commits of members that are none any more."""
    return [*_forgotten(history, rules), *_outlived(history)]


def _forgotten(history: History, rules: Rules) -> list[Violation]:
    if rules.loss_permitted:
        return []
    found: list[Violation] = []
    for (group, key), register in registers(history, rules).items():
        for access in register.accesses:
            if access.write or access.ended is None:
                continue
            allowed = register.allowed(access.op, access.began, access.ended)
            fits = allowed.nothing if access.offset is None else access.offset in allowed.offsets
            if fits:
                continue
            told = "nothing" if access.offset is None else str(access.offset)
            right = some([*allowed.offsets, *(["nothing"] if allowed.nothing else [])])
            text = f"{access.op} of group {group} was told {told}, which must be {right}"
            ops = indexes(access.op, *(each.op for each in allowed.accesses))
            offset = -1 if access.offset is None else access.offset
            found.append(Violation("A24", PROMISE, text, key, (offset,), ops))
    return found


def _outlived(history: History) -> list[Violation]:
    found: list[Violation] = []
    since: dict[str, dict[str, Op]] = {}
    """By group and member: the newest generation that somebody got since the member got its own."""
    for op in history.grouping:
        if op.f == "assigned":
            members = since.setdefault(op.group, {})
            for member, newest in members.items():
                if op.generation > newest.generation:
                    members[member] = op
            members[op.member] = op
        elif op.f == "commit" and op.member and op.outcome == "ok":
            outlived_by = since.get(op.group, {}).get(op.member)
            if outlived_by is not None and outlived_by.generation > op.generation:
                key: Key = (op.mops[0].topic, op.mops[0].partition)
                text = (
                    f"{op} by {op.member} of generation {op.generation} was taken, though"
                    f" {outlived_by.member} had got generation {outlived_by.generation} of group"
                    f" {op.group} before"
                )
                ops = indexes(op, outlived_by)
                found.append(Violation("A24", PROMISE, text, key, (), ops))
    return found
