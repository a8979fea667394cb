"""All of the proof of security runs from here: ``make security-check`` ends with one JSON line.

    {"apis": 53, "matrix_cells": 4000, "matrix_failed": 0, "hostile_cases": 300, ...}

The tests that are marked ``hostile``, ``cve`` or ``ablation``, and the matrix, run in processes of
their own, and the simulator tries every switch whose name begins with ``security.``. Before the
line stands what is not proved, and how long a bystander had to wait beside each attack. A row, a
CVE, an API or a switch without a test that passed makes ``ok`` false.
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

from integration.hostile.proof import MATRIX, Ran, Tables, judged, ran, timings
from support.house import ROOT, sources_of_tests

MARKED = re.compile(r"mark\.(hostile|cve|ablation)\(")
ATTACKS = ROOT / "tests/integration/hostile/test_attacks.py"


def main() -> int:
    """Run everything; return 0 if all of it is proved."""
    parser = argparse.ArgumentParser(prog="security-check", description=__doc__)
    parser.add_argument("--jobs", default="auto", help="processes for the tests")
    parser.add_argument("--seeds", type=int, default=100, help="most for each switch")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # One test at a time beside the attacks: how long a bystander waits is measured there.
        attacks = tests([ATTACKS], Path(folder) / "attacks.xml", "0")
        others = [path for path in marked() if path != ATTACKS]
        found = [*attacks, *tests(others, Path(folder) / "tests.xml", given.jobs)]
    caught = switches(given.seeds)
    counts, faults = judged(found, Tables.read(), caught)
    for line in (*timings(attacks), *faults):
        print(line)
    print(json.dumps(counts))
    return 0 if counts["ok"] else 1


def marked() -> list[Path]:
    """Return the modules of tests that prove something, with those of the matrix."""
    return [
        path
        for path in sources_of_tests()
        if path.name.startswith("test_")
        and (path.name.startswith(MATRIX) or MARKED.search(path.read_text()))
    ]


def tests(paths: Sequence[Path], report: Path, jobs: str) -> list[Ran]:
    """Run what is marked in some modules, and return what ran."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "loadfile"]
    command += [*map(str, paths), "-k", f"hostile or cve or ablation or {MATRIX}"]
    command += [f"--junitxml={report}", "-o", "junit_family=xunit1", "-o", "junit_logging=no"]
    subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
    return list(ran(report)) if report.exists() else []


def switches(seeds: int) -> dict[str, bool]:
    """Have the simulator try every switch of security; return whether each was caught."""
    from simulation.ablations import SWITCHES

    names = [name for name in SWITCHES if name.startswith("security.")]
    if not names:
        return {}
    command = [sys.executable, "-m", "simulation", "ablations", "--only", ",".join(names)]
    command += ["--seeds", str(seeds)]
    paths = [path for path in sys.path if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ended = subprocess.run(
        command, cwd=ROOT / "tests", env=environment, capture_output=True, text=True, check=False
    )
    print(ended.stdout, ended.stderr, file=sys.stderr)
    lines = ended.stdout.splitlines()
    summary = json.loads(lines[-1]) if lines else {"seeds_needed": {}}
    return {name: name in summary["seeds_needed"] for name in names}


if __name__ == "__main__":
    raise SystemExit(main())
