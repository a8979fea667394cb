"""A coordinator's partition moves to another broker: for how long its groups have no answer.

Two brokers, one partition of ``__consumer_offsets`` with all offsets in it. A group is asked for an
offset all the while, wherever its coordinator is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from oncelog import Admin, TopicPartition
from oncelog.config import Address
from oncelog.core.connection import ask, open_channel
from oncelog.errors import OncelogError
from oncelog_bench import moves
from oncelog_protocol.messages.groups import (
    FindCoordinatorRequest,
    OffsetFetchRequest,
    OffsetFetchTopic,
)

CONFIGS = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_replication_factor": "1",
    "log_cleaner_enable": "false",
    "auto_leader_rebalance_enable": "false",
}
OFFSETS = TopicPartition("__consumer_offsets", 0)
ASK_S = 0.001
SETTLE_S = 1.0


async def longest_silence_s(bootstrap: str, topic: str, group: str, *, to: int) -> float:
    """Move the partition to a broker; return the longest time between two answers meanwhile."""
    stop = asyncio.Event()
    asking = asyncio.create_task(_ask_on(bootstrap, topic, group, stop))
    await asyncio.sleep(SETTLE_S)
    async with Admin(bootstrap) as admin:
        await moves.moved(admin, {OFFSETS: [to]})
    await asyncio.sleep(SETTLE_S)
    stop.set()
    return await asking


async def _ask_on(bootstrap: str, topic: str, group: str, stop: asyncio.Event) -> float:
    last, longest = time.perf_counter(), 0.0
    while not stop.is_set():
        try:
            async for answered in _answers(await _coordinator(bootstrap, group), topic, group):
                longest, last = max(longest, answered - last), answered
                if stop.is_set():
                    break
        except (OSError, TimeoutError, OncelogError):
            pass
        await asyncio.sleep(ASK_S)
    return max(longest, time.perf_counter() - last)


async def _coordinator(bootstrap: str, group: str) -> Address:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    channel = await open_channel(Address(host, int(port)), "bench", 5.0)
    try:
        found = await ask(channel, FindCoordinatorRequest(group), 5.0)
    finally:
        channel.close()
    return Address(found.host, found.port)


async def _answers(address: Address, topic: str, group: str) -> AsyncIterator[float]:
    """Yield when each answer came, until there is one that has no offset."""
    request = OffsetFetchRequest(group, [OffsetFetchTopic(topic, [0])])
    channel = await open_channel(address, "bench", 5.0)
    try:
        while True:
            answer = await ask(channel, request, 5.0)
            if answer.error_code or answer.topics[0].partitions[0].error_code:
                return
            if answer.topics[0].partitions[0].offset != 1:
                raise RuntimeError(f"served before it was loaded: {answer}")
            yield time.perf_counter()
            await asyncio.sleep(ASK_S)
    finally:
        channel.close()
