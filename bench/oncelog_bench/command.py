"""This measures how long a person waits for the command line: processes, from start to end."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from oncelog_bench.report import Report

LINES = (("--help",), ("topics", "--help"), ("topics", "list", "--help"), ("profile", "list"))
"""These commands need no cluster: the last one also makes and prints a table."""


def run(report: Report, repeats: int) -> None:
    """Measure the milliseconds of each line, beside those of a Python that does nothing."""
    bare = [_milliseconds([sys.executable, "-c", "pass"]) for _ in range(repeats)]
    report.add("a Python that does nothing", bare, "ms")
    for line in LINES:
        command = [sys.executable, "-m", "oncelog_cli", *line]
        _milliseconds(command)  # the first one compiles
        taken = [_milliseconds(command) for _ in range(repeats)]
        report.add(f"oncelog {' '.join(line)}", taken, "ms")


def _milliseconds(command: list[str]) -> float:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    started = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000
