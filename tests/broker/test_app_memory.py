"""All clients together may hold so much of a broker's memory, with real sockets and logs."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from oncelog_broker.server.quotas import BytePool, PoolMember
from oncelog_protocol import schema
from oncelog_protocol.messages.admin import DeleteTopicsRequest
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from support.cluster import Cluster
from support.hand_records import fetch_values, produce
from support.server import HELLO, frame, request_head
from support.waiting import eventually

MIB = 1024 * 1024
POOL_BYTES = 32 * MIB
BATCH_BYTES = 900_000
"""Twenty of them are more than what the kernel takes for a peer that does not read."""


class Highest:
    """It keeps the most that a pool ever counted."""

    def __init__(self, pool: BytePool) -> None:
        self.bytes = 0
        self._pool = pool
        self._update = pool.update
        pool.update = self.update  # type: ignore[method-assign]

    def update(self, member: PoolMember, held: int) -> None:
        self._update(member, held)
        self.bytes = max(self.bytes, self._pool.used)


async def one_that_never_reads(address: tuple[str, int]) -> socket.socket:
    """Open a connection with a small window and greet; its peer reads nothing from here on."""
    loop = asyncio.get_running_loop()
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.setblocking(False)
    await loop.sock_connect(peer, address)
    await loop.sock_sendall(peer, HELLO)
    await loop.sock_recv(peer, 65536)
    return peer


def all_there_is(min_bytes: int) -> bytes:
    topics = [FetchTopic("t", [FetchPartition(0, 0, 32 * MIB, -1, -1)])]
    request = FetchRequest(-1, -1, 30_000, min_bytes, 32 * MIB, 0, -1, topics)
    return frame(request_head(ApiKey.FETCH, schema.encode(request, 0)))


@pytest.mark.parametrize("parked", [False, True], ids=["at once", "parked"])
async def test_answers_to_all_who_do_not_read_are_bounded(tmp_path: Path, parked: bool) -> None:
    """Forty consumers ask for all there is and take none of it. What they hold is bounded, and one
    that does read is served all the same."""
    async with Cluster(tmp_path, queued_max_bytes=POOL_BYTES) as cluster:
        await cluster.create_topic("t", partitions=1)
        broker = cluster.brokers[1]
        producer = await cluster.channel(1)
        highest = Highest(broker.pool)
        peers = [await one_that_never_reads(broker.addresses["external"]) for _ in range(40)]
        loop = asyncio.get_running_loop()
        for peer in peers if parked else []:
            await loop.sock_sendall(peer, all_there_is(16 * MIB))
        for _ in range(20):
            await produce(producer, "t", 0, [b"x" * BATCH_BYTES])
        for peer in [] if parked else peers:
            await loop.sock_sendall(peer, all_there_is(1))
        await eventually(lambda: broker.pool.used > POOL_BYTES // 2)
        reader = await cluster.channel(1)
        async with asyncio.timeout(30):
            while not await fetch_values(reader, "t", 0, 0, wait_ms=100):
                pass
        # One batch more than the bound: the first of an answer is always whole.
        assert highest.bytes <= POOL_BYTES + 2 * BATCH_BYTES
        for peer in peers:
            peer.close()
        await eventually(lambda: broker.pool.used == 0)


async def test_topics_that_come_and_go_leave_no_settings_behind(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        replicas = cluster.brokers[1].replicas
        for settings in ({}, {"retention_ms": 1000}):
            for number in range(3):
                await cluster.create_topic(f"t-{number}", **settings)
            names = [f"t-{number}" for number in range(3)]
            await cluster.call(1, DeleteTopicsRequest(names, 10_000))
            await eventually(lambda: not list(replicas.partitions()))
        # What was deleted last is forgotten with the next change.
        await cluster.create_topic("last")
        await eventually(lambda: not replicas._overrides)
