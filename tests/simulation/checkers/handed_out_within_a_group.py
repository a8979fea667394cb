"""Checkers share what the members of a group were handed of one partition, all together."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulation.checkers.violation import Rules
from simulation.history import History, Key, Op


@dataclass(slots=True)
class Handed:
    """It is that of one group and partition."""

    start: int | None = None
    """The lowest offset at which a member began to read; None: none did."""
    end: int = 0
    """Up to where they have read, or said that they have."""
    by: Op | None = None
    """The operation that has told the end."""
    times: dict[int, list[Op]] = field(default_factory=dict)
    """The polls that handed it out, by offset."""
    moved: bool = False
    """Somebody from outside has set the committed offset: what was left out is his will."""

    def begins(self, offset: int) -> None:
        """A member reads from here."""
        self.start = offset if self.start is None else min(self.start, offset)

    def reaches(self, end: int, op: Op) -> None:
        """Everything below is done with, by this operation."""
        if end > self.end:
            self.end, self.by = end, op


def handed_out(history: History, rules: Rules) -> dict[tuple[str, Key], Handed]:
    """Return it by group and partition."""
    if "handed_out" not in history.derived:
        history.derived["handed_out"] = _handed_out(history)
    found: dict[tuple[str, Key], Handed] = history.derived["handed_out"]
    return found


def _handed_out(history: History) -> dict[tuple[str, Key], Handed]:
    found: dict[tuple[str, Key], Handed] = {}
    for op in history.ops:
        group = op.group or history.groups.get(op.client, "")
        if not group or op.f not in ("poll", "txn", "assign", "commit"):
            continue
        for mop in op.mops:
            if mop.offset is None:
                continue
            handed = found.setdefault((group, (mop.topic, mop.partition)), Handed())
            if mop.kind == "assign":
                handed.begins(mop.offset)
            elif mop.kind == "poll":
                handed.begins(mop.offset)
                handed.reaches(mop.offset + 1, op)
                handed.times.setdefault(mop.offset, []).append(op)
            elif mop.kind == "commit" and not op.member:
                handed.moved = True
            elif mop.kind == "commit" and op.outcome != "fail":
                handed.reaches(mop.offset, op)
    return found
