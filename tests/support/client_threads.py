"""Blocking clients beside a loop of the test's own, and the threads that they leave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


def client_threads() -> list[threading.Thread]:
    """Those of blocking clients; a cluster for tests, another test's, has a thread of its own."""
    named = [each for each in threading.enumerate() if each.name.startswith("oncelog-")]
    return [each for each in named if each.name != "oncelog-cluster"]


async def in_thread(work: Callable[[], None]) -> None:
    """Run blocking code beside the loop that the fake cluster lives on."""
    await asyncio.to_thread(work)
