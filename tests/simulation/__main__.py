"""Run the simulator from a shell: one seed, a campaign, or the ablations.

    python -m simulation run 17 --log            # what the brokers log, with virtual time
    python -m simulation campaign --seeds 100 --from 1
    python -m simulation shrink 17
    python -m simulation replay --seeds 100
    python -m simulation ablations

From ``tests/``, or by ``make sim``, ``make sim-campaign``, ``make sim-shrink``, ``make ablations``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TextIO

from oncelog.history_events import json_lines
from simulation.campaign import SAFETY_S, Options, Result, run_quietly, run_seed
from simulation.knobs import Knobs
from simulation.replay import different
from simulation.shrink import shrink

KNOBS_HELP = "these instead of what is drawn, such as secured=1,groups=0"
SEEDS_FILE = Path(__file__).parent / "seeds.txt"


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 when every promise was kept."""
    parser = argparse.ArgumentParser(prog="simulation", description="One seed replays a cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="one seed")
    run.add_argument("seed")
    run.add_argument("--seconds", type=float, default=SAFETY_S, help="of the safety phase")
    run.add_argument("--knobs", default="", help=KNOBS_HELP)
    run.add_argument("--faults", default="", help="only these, with commas")
    run.add_argument("--skip", default="", help="ids of faults to leave out, with commas")
    run.add_argument("--log", action="store_true", help="print what the product logs")
    run.add_argument("--trace", metavar="FILE", help="write every event of the simulator")
    run.add_argument("--history", metavar="FILE", help="write what clients asked and heard")
    run.set_defaults(act=run_one)
    campaign = commands.add_parser("campaign", help="many seeds, on all cores")
    campaign.add_argument("--seeds", type=int, default=100)
    campaign.add_argument("--from", dest="first", type=int, default=1)
    campaign.add_argument("--seconds", type=float, default=SAFETY_S)
    campaign.add_argument("--knobs", default="", help=KNOBS_HELP)
    campaign.add_argument("--jobs", type=int, default=os.cpu_count())
    campaign.add_argument("--kept", action="store_true", help="the seeds of seeds.txt too")
    campaign.set_defaults(act=run_campaign)
    shrunk = commands.add_parser("shrink", help="leave out faults while a seed still fails")
    shrunk.add_argument("seed")
    shrunk.add_argument("--seconds", type=float, default=SAFETY_S)
    shrunk.add_argument("--knobs", default="", help=KNOBS_HELP)
    shrunk.set_defaults(act=run_shrink)
    replay = commands.add_parser("replay", help="the same traces under three hash seeds")
    replay.add_argument("--seeds", type=int, default=100)
    replay.add_argument("--from", dest="first", type=int, default=1)
    replay.add_argument("--seconds", type=float, default=SAFETY_S)
    replay.add_argument("--jobs", type=int, default=os.cpu_count())
    replay.set_defaults(act=run_replay)
    ablations = commands.add_parser("ablations", help="every safeguard off, each to be caught")
    ablations.add_argument("--seeds", type=int, default=500, help="most for each switch")
    ablations.add_argument("--only", default="", help="names of switches, with commas")
    ablations.add_argument("--jobs", type=int, default=os.cpu_count())
    ablations.set_defaults(act=run_ablations)
    options = parser.parse_args(arguments)
    act: Callable[[argparse.Namespace], int] = options.act
    return act(options)


# -- one seed ----------------------------------------------------------------------------------


def run_one(given: argparse.Namespace) -> int:
    """Run one seed, with as much to look at as one likes."""
    with ExitStack() as files:
        trace = _open(files, given.trace)
        options = Options(
            safety_s=given.seconds,
            faults=_names(given.faults) or None,
            forced=Knobs.read(given.knobs),
            skip=frozenset(_names(given.skip)),
            trace=None if trace is None else trace.write,
            logs=print if given.log else None,
        )
        began = time.perf_counter()
        result = run_seed(_seed(given.seed), options)
        wall_s = time.perf_counter() - began
        history = _open(files, given.history)
        if history is not None:
            write = json_lines(history)
            for event in result.events:
                write(event)
    print(f"seed {result.seed}: {'clean' if result.clean else 'FAILED'}")
    print(f"  knobs: {result.knobs}")
    print(f"  faults: {_counts(result.faults)}")
    print(
        f"  {result.simulated_s:.1f} simulated seconds in {wall_s:.1f} s, "
        f"{result.steps} steps, {len(result.events)} events of clients"
    )
    print(f"  trace {result.trace_hash}")
    _print_problems(result, given.seconds, given.knobs)
    return 0 if result.clean else 1


def _print_problems(result: Result, seconds: float, knobs: str) -> None:
    for problem in result.problems[:20]:
        print(f"  {problem}")
    if len(result.problems) > 20:
        print(f"  and {len(result.problems) - 20} more")
    if result.problems:
        replay, smaller = (
            _make(goal, result.seed, seconds, knobs) for goal in ("sim", "sim-shrink")
        )
        print(f"  replay: {replay}   shrink: {smaller}")


def _make(goal: str, seed: int | str, seconds: float, knobs: str) -> str:
    """Return the command that runs a seed as it was run here."""
    time = "" if seconds == SAFETY_S else f" SECONDS_SIMULATED={seconds:g}"
    forced = f' KNOBS="{knobs}"' if knobs else ""
    return f"make {goal} SEED={seed}{time}{forced}"


def _open(files: ExitStack, path: str | None) -> TextIO | None:
    return None if path is None else files.enter_context(open(path, "w", encoding="utf-8"))


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _seed(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "none"


# -- many seeds --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """A run of a campaign is a seed, and the values that stand instead of what it draws."""

    seed: int | str
    knobs: Mapping[str, Any]

    @property
    def described(self) -> str:
        """Return the knobs as ``Knobs.read`` reads them."""
        return " ".join(f"{name}={value}" for name, value in self.knobs.items())


def run_campaign(given: argparse.Namespace) -> int:
    """Run many seeds; the last line printed is JSON."""
    forced = Knobs.read(given.knobs)
    runs = [Planned(seed, forced) for seed in range(given.first, given.first + given.seeds)]
    if given.kept:
        runs = [*(replace(run, knobs={**run.knobs, **forced}) for run in kept_seeds()), *runs]
    began = time.perf_counter()
    coverage: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    failed: list[int | str] = []
    simulated_s = 0.0
    for done, (run, result) in enumerate(zip(runs, _results(runs, given), strict=True), 1):
        if done % 50 == 0:
            print(f"{done} seeds, {len(failed)} failed", file=sys.stderr, flush=True)
        coverage.update(result.coverage)
        faults.update(result.faults)
        simulated_s += result.simulated_s
        if not result.clean:
            failed.append(result.seed)
            print(f"seed {result.seed} FAILED  ({result.knobs})")
            _print_problems(result, given.seconds, run.described)
            sys.stdout.flush()
    for name, count in sorted(faults.items()):
        coverage[f"fault_{name}"] = count
    wall_s = time.perf_counter() - began
    summary = {
        "seeds": len(runs),
        "clean": len(runs) - len(failed),
        "failed": failed,
        "simulated_seconds": round(simulated_s, 1),
        "wall_seconds": round(wall_s, 1),
        "coverage": dict(sorted(coverage.items())),
    }
    print(json.dumps(summary))
    return 1 if failed else 0


def _results(runs: Sequence[Planned], given: argparse.Namespace) -> Iterator[Result]:
    if given.jobs <= 1 or len(runs) == 1:
        for run in runs:
            yield run_quietly(run.seed, given.seconds, run.knobs)
        return
    # Fresh interpreters: no state of this one, and the same hash seed as it was given.
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        seeds, knobs = [run.seed for run in runs], [run.knobs for run in runs]
        yield from pool.map(run_quietly, seeds, [given.seconds] * len(runs), knobs)


def kept_seeds(path: Path = SEEDS_FILE) -> list[Planned]:
    """Return seeds that once found a bug: one a line, with what it was behind a #.

    Knobs may stand after a seed. They hold what it drew when it found the bug, and draws no more.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    texts = [line.partition("#")[0].strip() for line in lines]
    words = [text.partition(" ") for text in texts if text]
    return [Planned(_seed(seed), Knobs.read(knobs)) for seed, _, knobs in words]


def run_shrink(given: argparse.Namespace) -> int:
    """Search the fewest faults with which a seed still breaks the same promise."""
    options = Options(safety_s=given.seconds, forced=Knobs.read(given.knobs))
    found = shrink(_seed(given.seed), options, say=print)
    if found is None:
        print(f"seed {given.seed} is clean: nothing to shrink")
        return 0
    result = found.result
    print(f"{len(result.fault_ids)} faults are left: {_counts(result.faults)}")
    for problem in result.problems[:20]:
        print(f"  {problem}")
    command = _make("sim", given.seed, found.seconds, given.knobs)
    print(f"  {command} SKIP={','.join(found.skipped)}")
    return 1


def run_replay(given: argparse.Namespace) -> int:
    """Compare traces of seeds in several interpreters; the last line printed is JSON."""
    seeds = list(range(given.first, given.first + given.seeds))
    found = different(seeds, given.seconds, jobs=given.jobs)
    for seed in found:
        print(f"seed {seed}: another trace under another PYTHONHASHSEED")
    print(json.dumps({"seeds": len(seeds), "equal": len(seeds) - len(found), "different": found}))
    return 1 if found else 0


# -- ablations ---------------------------------------------------------------------------------


def run_ablations(given: argparse.Namespace) -> int:
    """Switch each safeguard off until a seed catches it; the last line printed is JSON."""
    from simulation.ablations import SWITCHES, seeds_needed

    wanted = _names(given.only) or list(SWITCHES)
    needed: dict[str, int] = {}
    missed: list[str] = []
    for name, count, promise in _ablated(wanted, given.seeds, given.jobs, seeds_needed):
        if count is None:
            missed.append(name)
            print(f"{name}: not caught within {given.seeds} seeds")
        else:
            needed[name] = count
            print(f"{name}: caught after {count} seeds by {promise}")
        sys.stdout.flush()
    summary: dict[str, Any] = {
        "switches": len(wanted),
        "caught": len(needed),
        "missed": missed,
        "seeds_needed": needed,
    }
    print(json.dumps(summary))
    return 1 if missed else 0


def _ablated(
    names: list[str],
    seeds: int,
    jobs: int,
    needed: Callable[[str, int], tuple[int | None, str]],
) -> Iterable[tuple[str, int | None, str]]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for name, (count, promise) in zip(
            names, pool.map(needed, names, [seeds] * len(names)), strict=True
        ):
            yield name, count, promise


if __name__ == "__main__":
    sys.exit(main())
