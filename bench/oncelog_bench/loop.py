"""A process of its own measures the longest turn of a broker's loop for each feared operation.

Benchmarks know brokers from outside only; how long a loop is held is seen from inside only.
"""

from __future__ import annotations

import subprocess
import sys


def run(*, quick: bool) -> int:
    """Measure. The last line on stdout is ``{"operations": {name: longest_ms}, "over_50_ms":
    [names]}``; returns 1 when that list is not empty."""
    command = [sys.executable, "-m", "oncelog_testing.turns", *(["--quick"] if quick else [])]
    return subprocess.run(command, check=False).returncode
