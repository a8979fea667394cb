"""An idle broker's cost is measured in CPU and resident memory, read from /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mb(pid: int) -> float:
    """Return the resident set of a process in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(pid)


def idle(pids: list[int], *, seconds: float) -> tuple[list[float], list[float]]:
    """Return CPU in % of a core and resident MB of each process over ``seconds`` without work."""
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(seconds)
    cpu = [
        (cpu_seconds(pid) - start) / seconds * 100 for pid, start in zip(pids, before, strict=True)
    ]
    return cpu, [resident_mb(pid) for pid in pids]
