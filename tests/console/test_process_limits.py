"""Why a process has ended is said so that people understand it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from oncelog_console.process_limits import EXIT_MEMORY, ProcessLimits, end_text

LIMITS = ProcessLimits(memory_bytes=256 << 20, cpu_s=1)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-signal.SIGXCPU, "1 s of processor time"),
        (EXIT_MEMORY, "256 MiB"),
        (-signal.SIGSEGV, "crashed"),
        (-signal.SIGTERM, "signal 15"),
        (3, "exit code 3"),
    ],
)
def test_why_a_process_ended(code: int, words: str) -> None:
    assert words in end_text(code, LIMITS)


@pytest.mark.parametrize(
    ("work", "words"),
    [("while True: pass", "processor time"), ("bytearray(1 << 30)", "256 MiB")],
)
def test_a_process_that_goes_too_far_is_ended(work: str, words: str) -> None:
    program = f"""\
import sys
from oncelog_console.process_limits import EXIT_MEMORY, ProcessLimits
ProcessLimits(memory_bytes=256 << 20, cpu_s=1).apply()
try:
    {work}
except MemoryError:
    sys.exit(EXIT_MEMORY)
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert words in end_text(ended.returncode, LIMITS)
