"""[A25]: a partition is never owned by two live members of a group at once.

Rules: a member owns a partition from the generation in which it was assigned to it up to the last
one in which it is known to have been a member while it had not given it up: by an assignment, a
commit that was taken, or by giving partitions up. A commit tells nothing while nobody was assigned
anything in its generation: that round may never have ended, and the next coordinator, which knows
nothing of it, gives the number to a round of its own. Two members whose generations overlap have
owned it both. A static member that comes back (a client whose name begins with "static") takes over
what its former life had, in the same generation; only a sign of that life behind it counts then. A
member that was thrown out and does not know yet is in no later generation, so it may still read; a
crash ends everything. An empty group is forgotten when it has no offsets, or when they have been
kept for long enough, and its next life begins at generation 0 again: after such a silence nothing
of its former life counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulation.checkers.violation import Rules, Violation, indexes
from simulation.history import History, Key, Op


@dataclass(slots=True)
class _Holding:
    """It is one partition in the hands of one member."""

    member: str
    first: Op
    """The assignment that brought it."""
    last: Op
    """The last sign that its member was one."""

    @property
    def is_static(self) -> bool:
        return self.first.client[1].startswith("static")

    def overlaps(self, other: _Holding) -> bool:
        if (
            self.first.generation > other.last.generation
            or other.first.generation > self.last.generation
        ):
            return False
        if not (self.is_static and other.is_static):
            return True
        older, newer = sorted((self, other), key=lambda each: each.first.index)
        return older.last.index > newer.first.index


def check(history: History, rules: Rules) -> list[Violation]:
    """Find pairs of members that have held one partition in the same generation."""
    found: list[Violation] = []
    groups: dict[str, _Group] = {}
    for op in history.grouping:
        if op.f == "crash":
            for group in groups.values():
                group.crash(op)
        elif op.member:
            if op.group not in groups:
                groups[op.group] = _Group(op.group, found, rules)
            groups[op.group].take(op)
    return found


class _Group:
    """It knows who holds what in one group."""

    def __init__(self, name: str, found: list[Violation], rules: Rules) -> None:
        self._name = name
        self._rules = rules
        self._has_offsets = False
        self._last_sign_s = 0.0
        self._found = found
        self._held: dict[Key, dict[str, _Holding]] = {}
        self._told: dict[tuple[Key, str, str], None] = {}
        self._generation = -1
        """The newest in which somebody was assigned something."""

    def take(self, op: Op) -> None:
        self._forget_former_life(op)
        keys = [(mop.topic, mop.partition) for mop in op.mops if mop.kind == "own"]
        if op.f in ("revoked", "lost"):
            if op.f == "revoked":
                self._alive(op)
            for key in keys:
                self._held.get(key, {}).pop(op.member, None)
            return
        if op.f == "assigned":
            if keys:
                self._generation = max(self._generation, op.generation)
            self._alive(op)
            self._forget_others_of(op)
            for key in keys:
                holders = self._held.setdefault(key, {})
                if op.member not in holders:
                    holders[op.member] = _Holding(op.member, op, op)
                    self._judge(key, holders[op.member])
        elif op.f == "commit" and op.outcome == "ok" and op.generation <= self._generation:
            self._alive(op)

    def crash(self, op: Op) -> None:
        """The members of a process are gone."""
        process = op.client[0]
        for holders in self._held.values():
            for member in [m for m, h in holders.items() if h.first.client[0] == process]:
                del holders[member]

    def _forget_former_life(self, op: Op) -> None:
        """Forget who held what, if brokers may have forgotten the group since its last sign."""
        rules = self._rules
        kept_s = rules.sessions_expire_after_s
        if self._has_offsets:
            kept_s = rules.offsets_expire_after_s
        silent_s = op.invoke.time_s - self._last_sign_s
        if op.f == "assigned" and kept_s is not None and silent_s >= kept_s:
            self._held.clear()
            self._generation, self._has_offsets = -1, False
        if op.f == "commit" and op.fate != "fail":
            self._has_offsets = True
        if op.end is not None and op.outcome == "ok" and op.f != "lost":
            self._last_sign_s = max(self._last_sign_s, op.end.time_s)

    def _alive(self, op: Op) -> None:
        for key, holders in self._held.items():
            holding = holders.get(op.member)
            if holding is not None and op.generation >= holding.last.generation:
                holding.last = op
                self._judge(key, holding)

    def _forget_others_of(self, op: Op) -> None:
        """A client that has joined anew holds nothing under its former member id."""
        for holders in self._held.values():
            for member, holding in list(holders.items()):
                if member != op.member and holding.first.client == op.client:
                    del holders[member]

    def _judge(self, key: Key, holding: _Holding) -> None:
        for other in self._held[key].values():
            name = key, min(holding.member, other.member), max(holding.member, other.member)
            if other is holding or not holding.overlaps(other) or name in self._told:
                continue
            self._told[name] = None
            text = (
                f"{_said(other)} and {_said(holding)} of group {self._name} have owned it at once"
            )
            ops = indexes(holding.first, holding.last, other.first, other.last)
            self._found.append(Violation("A25", "one_owner_at_a_time", text, key, (), ops))


def _said(holding: _Holding) -> str:
    first, last = holding.first.generation, holding.last.generation
    return f"{holding.member} (generation {first}{f' to {last}' if last > first else ''})"
