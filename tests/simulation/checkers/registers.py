"""Committed offsets are registers to the checkers of groups.

The committed offset of one partition in one group is a register: commits write it, whoever asks
reads it. Rules, after Lamport and in the places of events, not in seconds:

- what ended before another operation began is *overwritten* by it, unless that one failed;
- a commit that was never answered may take effect at any later time;
- an answer that was given counts like a write: what it showed was there, and what it did not show
  is overwritten;
- a group that has shown no sign of life for as long as offsets are kept may have lost them.
"""

from __future__ import annotations

from typing import NamedTuple

from simulation.checkers.violation import Rules
from simulation.history import History, Key, Op

Place = tuple[str, Key]
"""(group, partition)."""


class Access(NamedTuple):
    """It is one operation on one register."""

    op: Op
    offset: int | None
    """Written, or answered; None is nothing."""
    began: int
    ended: int | None
    """None: nobody knows that it happened, and when."""
    write: bool


class Allowed(NamedTuple):
    """An operation may find these in a register."""

    accesses: list[Access]
    nothing: bool
    """Whether it may be empty."""

    @property
    def offsets(self) -> list[int]:
        """Return each once, sorted."""
        return sorted({a.offset for a in self.accesses if a.offset is not None})


class Register:
    """It is one committed offset, through a whole history."""

    def __init__(self, lost_from: int | None) -> None:
        self.accesses: list[Access] = []
        self._lost_from = lost_from
        """From this place in the history on it may have expired."""

    def allowed(self, op: Op, began: int, ended: int) -> Allowed:
        """Return what ``op`` may find between two places of the history."""
        floor = max(
            (a.began for a in self.accesses if a.ended is not None and a.ended < began),
            default=None,
        )
        found = [
            a
            for a in self.accesses
            if a.op is not op
            and a.began < ended
            and (a.write or (a.ended is not None and a.ended < began))
            and (floor is None or a.ended is None or a.ended >= floor)
        ]
        expired = self._lost_from is not None and self._lost_from < ended
        empty = floor is None or expired or any(a.offset is None for a in found)
        return Allowed(found, empty)


def registers(history: History, rules: Rules) -> dict[Place, Register]:
    """Return every committed offset that the history tells of."""
    name = ("registers", rules.offsets_expire_after_s)
    if name not in history.derived:
        history.derived[name] = _registers(history, rules)
    found: dict[Place, Register] = history.derived[name]
    return found


def _registers(history: History, rules: Rules) -> dict[Place, Register]:
    lost = _lost_from(history, rules.offsets_expire_after_s)
    found: dict[Place, Register] = {}
    for op in history.grouping:
        write = op.f == "commit"
        if op.fate == "fail" or not (write or (op.f == "committed" and op.outcome == "ok")):
            continue
        ended = op.ended if op.fate == "ok" else None
        if op.txn is not None and ended is not None:
            ended = op.txn.ended  # what asks now waits for what is decided but not written yet
        for mop in op.mops:
            place = op.group, (mop.topic, mop.partition)
            register = found.get(place)
            if register is None:
                register = found[place] = Register(lost.get(op.group))
            register.accesses.append(Access(op, mop.offset, op.index, ended, write))
    return found


def _lost_from(history: History, after_s: float | None) -> dict[str, int]:
    """Return each group's first place in the history after which its offsets may be lost."""
    if after_s is None:
        return {}
    found: dict[str, int] = {}
    last_s: dict[str, float] = {}
    idle = _polls_of_outcasts(history)
    for op in history.ops:
        group = op.group or history.groups.get(op.client, "")
        if not group or op.outcome == "fail" or op.f == "crash" or op.index in idle:
            continue
        told = op.member and op.outcome == "ok" and op.f != "lost"
        alive = told or op.f in ("poll", "assigned")
        if group in last_s and op.invoke.time_s - last_s[group] >= after_s:
            found.setdefault(group, op.index)
        if alive and op.end is not None:
            last_s[group] = max(last_s.get(group, 0.0), op.end.time_s)
        last_s.setdefault(group, op.invoke.time_s)
    return found


def _polls_of_outcasts(history: History) -> set[int]:
    """Return the polls that are no sign of life, by their index: those of a member between its last
    answer from the coordinator and the news that it is none any more.

    It may be cut off from the coordinator, which has thrown it out, and go on reading.
    """
    found: set[int] = set()
    since: dict[tuple[str, str], list[int]] = {}
    for op in history.ops:
        if op.f == "poll":
            since.setdefault(op.client, []).append(op.index)
        elif op.f == "lost":
            found.update(since.pop(op.client, ()))
        elif op.member and op.outcome == "ok":
            since.pop(op.client, None)
    for polls in since.values():
        found.update(polls)  # nobody knows: it may have crashed before it heard
    return found
