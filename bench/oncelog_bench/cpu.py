"""This measures the CPU time of processes and of all that they have started.

A busy machine distorts it not half as much as the time that work takes. Linux only (/proc). A
process that is gone counts by what its parent was told when it collected it; time of one that
nobody collected is lost, so measure over spans in which processes live on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(roots: Iterable[int]) -> float:
    """Return user and system time so far of these processes and their descendants, in seconds.

    Each process is counted once.
    """
    times: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in sorted(Path("/proc").iterdir()):
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(entry.name)
        times[pid] = sum(map(int, fields[11:15]))  # proc(5): utime, stime, cutime, cstime
        children.setdefault(int(fields[1]), []).append(pid)
    todo, seen = list(roots), set[int]()
    while todo:
        pid = todo.pop()
        if pid in times and pid not in seen:
            seen.add(pid)
            todo += children.get(pid, [])
    return sum(times[pid] for pid in seen) / _TICKS
