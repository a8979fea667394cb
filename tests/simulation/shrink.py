"""Make a failing run smaller: leave out faults, and time of the safety phase, while the same
promise still breaks.

The promise is the first word of the first problem, such as "A3" or "liveness". Faults are left out
by their ids in halves, then quarters, down to single ones (delta debugging).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulation.campaign import Options, Result, run_seed

SECONDS_MIN = 1.0


@dataclass(frozen=True, slots=True)
class Shrunk:
    """It is the smallest failing run that was found."""

    result: Result
    skipped: list[str]
    """Ids of faults that it leaves out."""
    seconds: float
    """The length of its safety phase."""


def promise_of(result: Result) -> str:
    """Say in a word what broke first."""
    return result.problems[0].split()[0].rstrip(":") if result.problems else ""


def shrink(
    seed: int | str, options: Options, *, say: Callable[[str], None] = lambda _: None
) -> Shrunk | None:
    """Return the smallest failing run of a seed, or None when it is clean."""
    best = run_seed(seed, options)
    if best.clean:
        return None
    promise = promise_of(best)
    say(f"seed {seed} breaks {promise} with {len(best.fault_ids)} faults")

    def still(options: Options) -> Result | None:
        result = run_seed(seed, options)
        return result if promise_of(result) == promise else None

    while (seconds := options.safety_s / 2) >= SECONDS_MIN:
        shorter = replace(options, safety_s=seconds)
        if (result := still(shorter)) is None:
            break
        best, options = result, shorter
        say(f"{seconds:g} seconds suffice, with {len(best.fault_ids)} faults")
    best, skipped = _without_faults(best, options, still, say)
    return Shrunk(best, skipped, options.safety_s)


def _without_faults(
    best: Result,
    options: Options,
    still: Callable[[Options], Result | None],
    say: Callable[[str], None],
) -> tuple[Result, list[str]]:
    skipped: list[str] = list(options.skip)
    size = max(1, len(best.fault_ids) // 2)
    while True:
        remaining = list(best.fault_ids)
        progress = False
        for start in range(0, len(remaining), size):
            part = remaining[start : start + size]
            result = still(replace(options, skip=frozenset([*skipped, *part])))
            if result is not None:
                skipped += part
                best = result
                progress = True
                say(f"{len(best.fault_ids)} faults still break it")
        if size == 1 and not progress:
            return best, skipped
        size = max(1, size // 2)
