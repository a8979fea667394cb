"""Checkers of polls share how consumers moved from record to record.

Rules
-----
* A position survives everything but what says that it moved: a new assignment, a seek, a crash.
  Where a seek or the search for a first position says the new offset, the step to the first record
  begins just before it.
* Being thrown out of range moves nothing, unless the run permits it: a consumer that starts again
  somewhere else has then repeated or skipped records for no good reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simulation.checkers.violation import Rules
from simulation.history import History, Key, Op

Place = tuple[tuple[str, str], Key]
"""(client, partition)."""


class Step(NamedTuple):
    """It goes from one record of a partition to the next one that the same consumer was handed."""

    op: Op
    previous: Op
    key: Key
    before: int
    """The offset that came before; that of the new position, less one, right after a move."""
    after: int

    @property
    def within(self) -> bool:
        """Return whether both records came from one operation."""
        return self.op is self.previous


class Walk:
    """It keeps positions of all consumers while a history goes by."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._at: dict[Place, tuple[int, Op]] = {}
        self._thrown: dict[Place, bool] = {}
        """Consumers that the run's rules let jump once more: they fell out of range."""

    def move(self, op: Op) -> None:
        """Assign: forget, or set, the position of its partitions."""
        for mop in op.mops:
            place: Place = (op.client, (mop.topic, mop.partition))
            reason = op.invoke.note
            if reason == "reset":
                if self._rules.resets_permitted:
                    self._thrown[place] = True
                continue
            if reason == "found" and place in self._at:
                continue  # it follows a reset, which moved nothing or waits for its jump
            self._at.pop(place, None)
            self._thrown.pop(place, None)
            if mop.offset is not None and reason != "truncated":
                self._at[place] = (mop.offset - 1, op)

    def crash(self, op: Op) -> None:
        """The process begins anew."""
        process = op.client[0]
        self._at = {place: at for place, at in self._at.items() if place[0][0] != process}

    def poll(self, op: Op) -> Iterator[Step]:
        """Yield the steps of one operation that are not simply the next offset."""
        client = op.client
        for mop in op.mops:
            place: Place = (client, (mop.topic, mop.partition))
            if mop.kind == "assign":
                self._at.pop(place, None)
            offset = mop.offset
            if mop.kind != "poll" or offset is None:
                continue
            at = self._at.get(place)
            self._at[place] = (offset, op)
            if at is None or at[0] + 1 == offset:
                continue
            step = Step(op, at[1], place[1], at[0], offset)
            if not step.within:
                if self._rules.subscribed:
                    continue
                if place in self._thrown:
                    del self._thrown[place]
                    continue
            yield step


def steps(history: History, rules: Rules) -> list[Step]:
    """Return every step of every consumer that went anywhere but to the next offset."""
    name = ("steps", rules.subscribed, rules.resets_permitted)
    if name not in history.derived:
        history.derived[name] = list(_steps(history, rules))
    found: list[Step] = history.derived[name]
    return found


def _steps(history: History, rules: Rules) -> Iterator[Step]:
    walk = Walk(rules)
    for op in history.reading:
        if op.f == "assign":
            walk.move(op)
        elif op.f == "crash":
            walk.crash(op)
        else:
            yield from walk.poll(op)
