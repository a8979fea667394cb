"""The C library keeps memory that was freed, so that the next large buffer costs no page faults.

By itself glibc gives the end of its heap back to the system when it exceeds some MiB. A process
that reads and sends pieces of 1 MiB gets the same pages again and again: each one is faulted in,
and filled with zeros before it is filled with data.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Final

__all__ = ["keep_freed_memory"]

KEPT_BYTES: Final = 32 * 1024 * 1024
"""So much that is free stays at the end of the heap."""
HEAP_BLOCK_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger block is mapped by itself, and given back at once."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_CHOSEN: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory(environment: Mapping[str, str]) -> bool:
    """Set it for this process; return whether it holds now (mallopt(3)).

    It is not done where the environment has settings of its own for it, nor where the C library is
    not glibc.
    """
    if any(name in environment for name in _CHOSEN):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES_MAX)
    )
