"""Memory that was freed is used again without page faults."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from oncelog_runtime.allocator import keep_freed_memory

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="another C library has other means"
)

ROUNDS = """
import resource, sys
from oncelog_runtime.allocator import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory({})

def one_round():
    blocks = [bytes([1]) * (1 << 20) for _ in range(8)]
    del blocks

one_round()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    one_round()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    command = [sys.executable, "-c", ROUNDS, how]
    return int(subprocess.run(command, check=True, capture_output=True, env={}).stdout)


def test_large_buffers_are_not_faulted_in_again() -> None:
    assert _faults("keep") * 10 < _faults("plain")


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_the_environment_has_chosen_stands(name: str) -> None:
    assert not keep_freed_memory({name: "1"})
