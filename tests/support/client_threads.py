"""Blocking clients run beside a loop of the test's own, and leave threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


def client_threads() -> list[threading.Thread]:
    """Return those of blocking clients, not that of a cluster for tests."""
    named = [each for each in threading.enumerate() if each.name.startswith("oncelog-")]
    return [each for each in named if each.name != "oncelog-cluster"]


async def in_thread(work: Callable[[], None]) -> None:
    """Run blocking code beside the loop that the fake cluster lives on."""
    await asyncio.to_thread(work)
