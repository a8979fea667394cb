"""The operating system tells of this process here: memory, descriptors, time; most on Linux."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass

__all__ = ["ProcessFacts", "process_facts"]

_PAGE_BYTES = resource.getpagesize()
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_START_FIELD, _VIRTUAL_FIELD, _RESIDENT_FIELD = 19, 20, 21
"""The fields of ``/proc/self/stat``, counted from the state, which follows the name in brackets."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """It holds what one look found. What cannot be known here is None."""

    cpu_s: float
    """User and system time since the start."""
    resident_bytes: int | None
    virtual_bytes: int | None
    open_fds: int | None
    max_fds: int
    """The soft limit."""
    start_s: float | None
    """The start in seconds since 1970-01-01 UTC."""


def process_facts() -> ProcessFacts:
    """Look; some tens of microseconds."""
    times = os.times()
    resident = virtual = start = None
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open("/proc/stat", "rb") as file:
            booted = next(line for line in file if line.startswith(b"btime "))
        start = int(booted.split()[1]) + int(fields[_START_FIELD]) / _TICKS_PER_S
        virtual = int(fields[_VIRTUAL_FIELD])
        resident = int(fields[_RESIDENT_FIELD]) * _PAGE_BYTES
        open_fds: int | None = len(os.listdir("/proc/self/fd")) - 1
    except (OSError, StopIteration, IndexError, ValueError):
        open_fds = None
    return ProcessFacts(
        cpu_s=times.user + times.system,
        resident_bytes=resident,
        virtual_bytes=virtual,
        open_fds=open_fds,
        max_fds=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        start_s=start,
    )
