"""Many clients come at once, as after a cut of the network, while replicas stay in sync."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from oncelog import Admin, NewTopic
from oncelog.errors import NoBrokersAvailableError

TOPIC = "storm"
PARTITIONS = 60
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Storm:
    """It says how one storm went."""

    seconds: float
    """After this time each client had an answer."""
    lagging: int
    """So many replicas were out of sync at the worst moment."""
    repeated: int
    """So often a client that found no broker began again."""


async def storm(bootstrap: str, clients: int) -> Storm:
    """Let new clients ask a broker each, all at once, and watch the replicas meanwhile."""
    async with Admin(bootstrap) as watcher:
        if TOPIC not in await watcher.list_topics():
            topic = NewTopic(TOPIC, PARTITIONS, 3)
            (await watcher.create_topics([topic])).raise_for_errors()
        began = time.perf_counter()
        asking = asyncio.gather(*(_ask(bootstrap) for _ in range(clients)))
        lagging = 0
        while not asking.done():
            lagging = max(lagging, await _lagging(watcher))
            await asyncio.wait([asking], timeout=LOOK_S)
        ended = await asking
        seconds = max(when for when, _ in ended) - began
        return Storm(seconds, lagging, sum(repeated for _, repeated in ended))


async def _ask(bootstrap: str) -> tuple[float, int]:
    """Return when a new client had its first answer, by the performance counter, and how often it
    began again before. Brokers send the oldest newcomers away when there are too many."""
    repeated = 0
    while True:
        try:
            async with Admin(bootstrap) as admin:
                await admin.describe_cluster()
                return time.perf_counter(), repeated
        except NoBrokersAvailableError:
            repeated += 1
            await asyncio.sleep(LOOK_S)


async def _lagging(admin: Admin) -> int:
    """Return the number of replicas that are in no ISR."""
    described = await admin.describe_topics([TOPIC])
    return sum(
        len(partition.replicas) - len(partition.isr)
        for topic in described
        for partition in topic.partitions
    )
