"""A search goes through every reachable state of a small model, and shows the shortest way to harm.

A model is a start, the steps out of a state, what is wrong with a state, and which states are ends.
Two things are held: no reachable state is wrong, and from every one an end can still be reached (so
that nothing hangs for good, whatever happened before).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

Steps = Callable[[S], Iterable[tuple[str, S]]]

STATES_MAX = 2_000_000


@dataclass(frozen=True, slots=True)
class Found(Generic[S]):
    """A search came to this. ``problem`` is empty where everything holds."""

    states: int
    problem: str = ""
    trace: tuple[str, ...] = ()
    """The steps from the start to the bad state; the shortest there are."""
    last: S | None = None

    def __str__(self) -> str:
        steps = "".join(f"\n  {number}. {step}" for number, step in enumerate(self.trace, 1))
        return f"{self.problem or 'holds'} ({self.states:,} states){steps}"


def explore(
    start: S, steps: Steps[S], wrong: Callable[[S], str], is_end: Callable[[S], bool]
) -> Found[S]:
    """Go breadth first through every reachable state; stop at the first wrong one.

    :raises MemoryError: more than ``STATES_MAX`` states: the model is not as small as it was meant.
    """
    came_from: dict[S, tuple[S, str] | None] = {start: None}
    order: list[S] = [start]
    before: dict[S, list[S]] = {}
    ends: list[S] = []
    for state in order:
        problem = wrong(state)
        if problem:
            return Found(len(order), problem, trace_to(state, came_from), state)
        if is_end(state):
            ends.append(state)
        for label, following in steps(state):
            if following == state:
                continue
            if following not in came_from:
                came_from[following] = (state, label)
                order.append(following)
                if len(order) > STATES_MAX:
                    raise MemoryError(f"more than {STATES_MAX:,} states")
            before.setdefault(following, []).append(state)
    stuck = first_without_end(order, before, ends)
    if stuck is not None:
        return Found(len(order), "no end is in reach", trace_to(stuck, came_from), stuck)
    return Found(len(order))


def first_without_end(order: list[S], before: dict[S, list[S]], ends: list[S]) -> S | None:
    """Return the first state, in order of discovery, from which no end can be reached."""
    good = set(ends)
    waiting = list(ends)
    while waiting:
        for state in before.get(waiting.pop(), ()):
            if state not in good:
                good.add(state)
                waiting.append(state)
    return next((state for state in order if state not in good), None)


def trace_to(state: S, came_from: dict[S, tuple[S, str] | None]) -> tuple[str, ...]:
    """Return the labels of the steps from the start to a state."""
    labels: list[str] = []
    step = came_from[state]
    while step is not None:
        labels.append(step[1])
        step = came_from[step[0]]
    return tuple(reversed(labels))
