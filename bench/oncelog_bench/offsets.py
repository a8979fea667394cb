"""This measures how many commits and questions for offsets a coordinator answers a second.

Every group has a connection of its own and one request under way; the groups run side by side, as
consumers would. Requests are those of the wire, so that the client's own work stays small.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oncelog import Admin, Consumer, NewTopic, TopicPartition
from oncelog.config import Address
from oncelog.core.connection import ask, open_channel
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.groups import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.channel import RequestChannel

TIMEOUT_S = 30.0
REPLICAS = 3

MakeRequest = Callable[[str, int], Request]
"""It makes the request of a group and a number that grows."""


@dataclass(frozen=True, slots=True)
class Rates:
    """These rates were measured by one repeat."""

    requests: float
    """A second."""
    latencies_ms: list[float]


async def find_coordinator(bootstrap: str, group: str) -> Address:
    """Return where the group's coordinator listens, after waiting for one that serves."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    anybody = Address(host, int(port))
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            found: FindCoordinatorResponse
            found = await ask_once(anybody, FindCoordinatorRequest(group))
            if found.error_code == 0:
                address = Address(found.host, found.port)
                answer = await ask_once(address, OffsetFetchRequest(group, None))
                if answer.error_code == 0:
                    return address
            await asyncio.sleep(0.02)


async def ask_once(address: Address, request: Request) -> Any:
    """Return the answer to one request over a connection of its own."""
    channel = await open_channel(address, "bench", 5.0)
    try:
        return await ask(channel, request, TIMEOUT_S)
    finally:
        channel.close()


def commit_request(topic: str, partitions: int) -> MakeRequest:
    """Return what makes commits from outside of the groups, of ``partitions`` partitions each."""

    def make(group: str, number: int) -> Request:
        offsets = [OffsetCommitPartition(p, number, 0) for p in range(partitions)]
        return OffsetCommitRequest(group, -1, "", None, [OffsetCommitTopic(topic, offsets)])

    return make


def fetch_request(topic: str, partitions: int) -> MakeRequest:
    """Return what makes questions for the committed offsets of ``partitions`` partitions."""
    wanted = [OffsetFetchTopic(topic, list(range(partitions)))]
    return lambda group, number: OffsetFetchRequest(group, wanted)


def batch_of(partitions: int) -> bytes:
    """Make a batch about as large as that of one commit, for the raw baseline."""
    values = [b"v" * 24] * partitions
    return bytes(encode_batch(values, keys=[b"k" * 24] * partitions, timestamps=0))


def synced_by_hand(directory: Path, batch: bytes, *, seconds: float) -> float:
    """Return how often a second a batch can be appended to three files and each of them synced.

    They are synced one after the other: what a commit costs this disk, without brokers and without
    company.
    """
    fds = [
        os.open(directory / f"synced-{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        for number in range(REPLICAS)
    ]
    try:
        count = 0
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            for fd in fds:
                os.write(fd, batch)
                os.fdatasync(fd)
            count += 1
        return count / (time.perf_counter() - began)
    finally:
        for fd in fds:
            os.close(fd)


async def measure(bootstrap: str, make: MakeRequest, *, groups: int, seconds: float) -> Rates:
    """Ask for ``seconds``, with one request of each group under way."""
    names = [f"bench-{number}" for number in range(groups)]
    addresses = [await find_coordinator(bootstrap, name) for name in names]
    channels = [await open_channel(address, "bench", 5.0) for address in addresses]
    latencies: list[float] = []
    began = time.perf_counter()
    until = began + seconds
    loops = [
        _ask_until(channel, name, make, until, latencies)
        for channel, name in zip(channels, names, strict=True)
    ]
    await asyncio.gather(*loops)
    elapsed = time.perf_counter() - began
    for channel in channels:
        channel.close()
    return Rates(len(latencies) / elapsed, latencies)


async def _ask_until(
    channel: RequestChannel, group: str, make: MakeRequest, until: float, latencies: list[float]
) -> None:
    number = 0
    while (begun := time.perf_counter()) < until:
        number += 1
        answer = await ask(channel, make(group, number), TIMEOUT_S)
        codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        if answer.error_code or codes - {0}:
            raise RuntimeError(f"refused: {answer.error_code} {sorted(codes)}")
        latencies.append((time.perf_counter() - begun) * 1000)


async def consumer_commits(bootstrap: str, topic: str, *, seconds: float) -> float:
    """Return the rate of ``await consumer.commit()`` of one consumer: commits a second.

    One commit comes after the other.
    """
    async with Consumer(
        bootstrap_servers=bootstrap, group_id="bench-consumer", enable_auto_commit=False
    ) as consumer:
        only = TopicPartition(topic, 0)
        consumer.assign([only])
        consumer.seek(only, 0)
        await consumer.commit()
        count = 0
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            await consumer.commit()
            count += 1
        return count / (time.perf_counter() - began)


async def make_topic(
    bootstrap: str, name: str, *, partitions: int, replication_factor: int = 1, **configs: str
) -> None:
    """Create a topic and wait until all of it has leaders."""
    async with Admin(bootstrap) as admin:
        new = NewTopic(name, partitions, replication_factor, configs)
        (await admin.create_topics([new], timeout_ms=60_000)).raise_for_errors()
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                described = (await admin.describe_topics([name]))[0].partitions
                if len(described) == partitions and all(p.leader >= 0 for p in described):
                    return
                await asyncio.sleep(0.05)
