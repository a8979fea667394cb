"""All of the proof of security runs from here: ``make security-check`` ends with one JSON line.

    {"apis": 53, "matrix_cells": 4000, "matrix_failed": 0, "hostile_cases": 300, ...}

The tests that are marked ``hostile``, ``cve`` or ``ablation``, and the matrix, run in processes of
their own, and the simulator tries every switch whose name begins with ``security.``. Before the
line stands what is not proved, and how long a bystander had to wait beside each attack. A row, a
CVE, an API or a switch without a test that passed makes ``ok`` false, and so does a run that has
not come to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from integration.hostile.proof import MATRIX, Ran, Tables, canary, judged, ran, waits
from support.house import ROOT, sources_of_tests

MARKED = re.compile(r"mark\.(hostile|cve|ablation)\(")
ATTACKS = ROOT / "tests/integration/hostile/test_attacks.py"
QUIET_LAPS = 200
"""A bystander writes and reads so many records alone, before each attack."""
FAILED = 1
"""pytest ends so when all tests ran, and some failed."""


def main() -> int:
    """Run everything; return 0 if all of it is proved."""
    parser = argparse.ArgumentParser(prog="security-check", description=__doc__)
    parser.add_argument("--jobs", default="auto", help="processes for the tests")
    parser.add_argument("--seeds", type=int, default=100, help="most for each switch")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # One test at a time beside the attacks: how long a bystander waits is measured there.
        alone = Path(folder) / "attacks.xml"
        attacks, broken = tests([ATTACKS], alone, "0", f"--quiet-laps={QUIET_LAPS}")
        paths = [path for path in marked() if path != ATTACKS]
        others, more = tests(paths, Path(folder) / "tests.xml", given.jobs)
    caught, most = switches(given.seeds)
    counts, faults = judged([*attacks, *others], Tables.read(), caught, [*broken, *more, *most])
    measured = waits(attacks)
    for line in (*measured, *faults):
        print(line)
    print(json.dumps({**counts, **canary(measured)}))
    return 0 if counts["ok"] else 1


def marked() -> list[Path]:
    """Return the modules of tests that prove something, with those of the matrix."""
    return [
        path
        for path in sources_of_tests()
        if path.name.startswith("test_")
        and (path.name.startswith(MATRIX) or MARKED.search(path.read_text()))
    ]


def tests(
    paths: Sequence[Path], report: Path, jobs: str, *options: str
) -> tuple[list[Ran], list[str]]:
    """Run what is marked in some modules; return what ran, and what has not come to its end."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "loadfile", *options]
    command += [*map(str, paths), "-k", f"hostile or cve or ablation or {MATRIX}"]
    command += [f"--junitxml={report}", "-o", "junit_family=xunit1", "-o", "junit_logging=no"]
    ended = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
    found = list(ran(report)) if report.exists() else []
    if ended.returncode in (0, FAILED):
        return found, []
    return found, [f"the tests did not all run: pytest ended with code {ended.returncode}"]


def switches(seeds: int) -> tuple[dict[str, bool], list[str]]:
    """Have the simulator try every switch of security.

    :returns: whether each was caught, and what has not come to its end.
    """
    from simulation.ablations import SWITCHES

    names = [name for name in SWITCHES if name.startswith("security.")]
    if not names:
        return {}, []
    command = [sys.executable, "-m", "simulation", "ablations", "--only", ",".join(names)]
    command += ["--seeds", str(seeds)]
    paths = [path for path in sys.path if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ended = subprocess.run(
        command, cwd=ROOT / "tests", env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    print(ended.stdout, file=sys.stderr)
    return told(names, ended.returncode, ended.stdout)


def told(names: Sequence[str], code: int, printed: str) -> tuple[dict[str, bool], list[str]]:
    """Return whether each switch was caught, by what the simulator printed, and what is amiss."""
    lines = printed.splitlines()
    try:
        needed = json.loads(lines[-1])["seeds_needed"]
        return {name: name in needed for name in names}, []
    except (IndexError, ValueError, KeyError, TypeError):
        fault = f"the simulator ended with code {code}, and its last line is not its summary"
        return dict.fromkeys(names, False), [fault]


if __name__ == "__main__":
    raise SystemExit(main())
