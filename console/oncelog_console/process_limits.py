"""A process that looks into other people's bytes limits itself: memory, processor time, priority.

Rules: the limits are set by the process itself, before it reads anything but its orders. What goes
beyond ends that process alone; its parent says so.
"""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass

NICENESS = 5
"""Whoever searches waits for those who serve."""
EXIT_MEMORY = 70
"""The process had not enough memory."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """A process may use so much."""

    memory_bytes: int = 2 << 30
    """It bounds address space, of which Python and its libraries take some hundred MiB."""
    cpu_s: int = 900
    """Seconds of processor time."""

    def apply(self) -> None:
        """Set the limits for this process, for good."""
        os.nice(NICENESS)
        resource.setrlimit(resource.RLIMIT_AS, (self.memory_bytes, self.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (self.cpu_s, self.cpu_s + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_text(code: int, limits: ProcessLimits) -> str:
    """Return why a process has ended, from its exit code as asyncio gives it."""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"it was ended: it may use {limits.cpu_s} s of processor time"
    if code in (EXIT_MEMORY, -signal.SIGSEGV, -signal.SIGABRT):
        size = limits.memory_bytes >> 20
        return f"it crashed, or it needed more memory than it may use ({size} MiB)"
    if code < 0:
        return f"it crashed: signal {-code}"
    return f"it failed: exit code {code}"
