"""Compare the benchmarks of two commits, this checkout and another: ``make bench-compare REF=...``.

Both run in turns, each from a checkout and an environment of its own, so that a noisy minute
hits both. A row is *worse* when the ranges of its figures do not overlap and this checkout lies on
the wrong side. The last line is one JSON object; the exit code is 1 when a row is worse.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CHECKOUTS = ROOT / ".compare"
GROUPS = ("produce", "consume", "latency", "failover", "idle", "command", "transactions")
"""These groups are compared unless other groups are named; the others take much longer."""

ATTEMPTS = 3

Figures = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Compared:
    """Both commits have this row: every figure that was taken, and what follows from them."""

    name: str
    unit: str
    here: list[float]
    there: list[float]
    ratio: float
    """Median here over median there; 0 where there is nothing to divide by."""
    verdict: str
    """``worse``, ``better`` or ``same``: the last unless the ranges lie apart."""


def compare(
    name: str, unit: str, here: list[float], there: list[float], *, lower_is_better: bool
) -> Compared:
    """Judge one row.

    :param here: the figures of this checkout, at least one.
    :param there: the figures of the other commit, at least one.
    """
    if max(here) < min(there):
        verdict = "better" if lower_is_better else "worse"
    elif min(here) > max(there):
        verdict = "worse" if lower_is_better else "better"
    else:
        verdict = "same"
    theirs = statistics.median(there)
    ratio = statistics.median(here) / theirs if theirs else 0.0
    return Compared(name, unit, here, there, round(ratio, 3), verdict)


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def checkout(ref: str) -> Path:
    """Make a checkout of ``ref`` with its own environment; it is kept for the next comparison."""
    commit = git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    folder = CHECKOUTS / commit[:12]
    if not folder.exists():
        git("worktree", "prune")
        git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    if subprocess.run(["make", "setup"], cwd=folder, check=False).returncode != 0:
        sys.exit(f"make setup failed in {folder}")
    return folder


def measure(folder: Path, arguments: list[str]) -> list[dict[str, Any]]:
    """Return the rows of one run of the benchmarks of the checkout in ``folder``."""
    command = [str(folder / ".venv/bin/oncelog"), "bench", "--json", "--repeats", "1", *arguments]
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])["rows"]
            return rows
        print(f"{' '.join(command)} failed:\n{done.stderr}", file=sys.stderr, flush=True)
    sys.exit(f"{ATTEMPTS} runs in turn failed in {folder}")


def run(
    ref: str, turns: int, arguments: list[str], lower_is_better: frozenset[str]
) -> list[Compared]:
    """Measure both commits in turns; rows that only one of them has are left out."""
    places = {"here": ROOT, "there": checkout(ref)}
    taken: dict[str, Figures] = {side: {} for side in places}
    units: dict[str, str] = {}
    for turn in range(turns):
        # Who comes first changes, since the first of a pair finds another machine than the second.
        for side in ("here", "there") if turn % 2 == 0 else ("there", "here"):
            print(f"turn {turn + 1} of {turns}: {side}", file=sys.stderr, flush=True)
            for row in measure(places[side], arguments):
                taken[side].setdefault(row["name"], []).append(row["value"])
                units[row["name"]] = row["unit"]
    return [
        compare(
            name,
            units[name],
            figures,
            taken["there"][name],
            lower_is_better=units[name] in lower_is_better,
        )
        for name, figures in taken["here"].items()
        if name in taken["there"]
    ]


def main() -> int:
    from oncelog_bench.report import LOWER_IS_BETTER, show

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ref", help="the commit to compare with")
    parser.add_argument("--turns", type=int, default=5, help="runs of each commit")
    parser.add_argument("--only", nargs="*", default=[], help=f"groups; default: {GROUPS}")
    parser.add_argument("--quick", action="store_true", help="small work: minutes, not an hour")
    options = parser.parse_args()
    if options.turns < 3:
        parser.error("--turns: a range needs three figures at least")
    arguments = [part for group in options.only or GROUPS for part in ("--only", group)]
    arguments += ["--quick"] if options.quick else []
    rows = run(options.ref, options.turns, arguments, LOWER_IS_BETTER)
    for row in rows:
        ranges = [
            f"{show(statistics.median(side)):>10} ({show(min(side))} .. {show(max(side))})"
            for side in (row.here, row.there)
        ]
        print(f"{row.name:<66} {ranges[0]} against {ranges[1]} {row.unit}  {row.verdict}")
    named = {
        verdict: [row.name for row in rows if row.verdict == verdict]
        for verdict in ("worse", "better")
    }
    print(json.dumps({"ref": options.ref, "rows": [asdict(row) for row in rows], **named}))
    return 1 if named["worse"] or not rows else 0


if __name__ == "__main__":
    raise SystemExit(main())
