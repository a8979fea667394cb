"""A coordinator takes over: how long it reads what is committed before it serves.

One broker, one partition of ``__consumer_offsets``, all offsets in it; the broker is stopped
cleanly and started again, and asked all the while.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from oncelog.config import Address
from oncelog.core.connection import ask, open_channel
from oncelog_bench.cluster import BenchCluster
from oncelog_bench.offsets import TIMEOUT_S, commit_request, find_coordinator
from oncelog_protocol.messages.groups import OffsetFetchRequest, OffsetFetchTopic
from oncelog_protocol.records.batch import iter_headers
from oncelog_protocol.records.decode import decode_batch

CONFIGS = {"offsets_topic_num_partitions": "1", "log_cleaner_enable": "false"}
OFFSETS_A_GROUP = 1000
LOADING = 14


async def fill(bootstrap: str, topic: str, *, groups: int, partitions: int) -> None:
    """Commit ``groups * partitions`` offsets, each of them another one."""
    address = await find_coordinator(bootstrap, "load-0")
    channel = await open_channel(address, "bench", 5.0)
    make = commit_request(topic, partitions)
    for first in range(0, groups, 8):
        names = [f"load-{number}" for number in range(first, min(first + 8, groups))]
        answers = [ask(channel, make(name, 1), TIMEOUT_S) for name in names]
        for answer in await asyncio.gather(*answers):
            codes = {p.error_code for t in answer.topics for p in t.partitions} - {0}
            if answer.error_code or codes:
                raise RuntimeError(f"refused: {answer.error_code} {sorted(codes)}")
    channel.close()


async def restart(cluster: BenchCluster, topic: str, group: str) -> float:
    """Return the seconds from the first "still loading" to the first answer with an offset."""
    await asyncio.to_thread(_stop, cluster)
    starting = asyncio.create_task(asyncio.to_thread(cluster.restart))
    host, _, port = cluster.bootstrap.rpartition(":")
    elapsed = await _watch(Address(host, int(port)), topic, group)
    await starting
    return elapsed


def _stop(cluster: BenchCluster) -> None:
    (pid,) = cluster.pids().values()
    os.kill(pid, signal.SIGTERM)
    while cluster.pids():
        time.sleep(0.1)


async def _watch(address: Address, topic: str, group: str) -> float:
    request = OffsetFetchRequest(group, [OffsetFetchTopic(topic, [0])])
    loading_since = 0.0
    async with asyncio.timeout(120):
        while True:
            try:
                channel = await open_channel(address, "bench", 5.0)
                while True:
                    answer = await ask(channel, request, TIMEOUT_S)
                    now = time.perf_counter()
                    if answer.error_code == LOADING and not loading_since:
                        loading_since = now
                    if answer.error_code == 0:
                        if answer.topics[0].partitions[0].offset != 1:
                            raise RuntimeError(f"served before it was loaded: {answer}")
                        return now - (loading_since or now)
                    await asyncio.sleep(0.001)
            except (OSError, TimeoutError):
                await asyncio.sleep(0.005)  # it is not up yet


def offsets_files(cluster: BenchCluster) -> list[Path]:
    """Return the log files of the offsets' partition."""
    (broker_id,) = cluster.broker_ids
    directory = cluster.directory / f"broker-{broker_id}" / "data" / "__consumer_offsets-0"
    return sorted(directory.glob("*.log"))


def decode_raw(files: list[Path]) -> float:
    """Return the seconds to read the same bytes, and decode them into keys and values."""
    began = time.perf_counter()
    for path in files:
        data = memoryview(path.read_bytes())
        for position, header in iter_headers(data):
            decode_batch(data[position : position + header.size_bytes])
    return time.perf_counter() - began
