"""Turns of a broker's loop, and of a large controller's, are measured in a process of their own.

Benchmarks know brokers from outside only; how long a loop is held is seen from inside only.
"""

from __future__ import annotations

import subprocess
import sys


def run(*, quick: bool, scale: bool = False) -> int:
    """Measure. The last line on stdout is ``{"operations": {name: longest_ms}, "over_50_ms":
    [names]}``; returns 1 when that list is not empty.

    :param scale: a controller of 100 brokers with 100,000 partitions is measured instead; of each
        operation that line tells the longest turn, the CPU time, and what was sent and written.
    """
    command = [sys.executable, "-m", "oncelog_testing.turns"]
    command += ["--scale"] if scale else []
    command += ["--quick"] if quick else []
    return subprocess.run(command, check=False).returncode
