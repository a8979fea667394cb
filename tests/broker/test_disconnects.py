"""Peers that go away are everyday: at whatever stage, the log has no traceback and no error."""

from __future__ import annotations

import io
import json
import logging
import socket
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oncelog import Consumer, Producer
from oncelog_broker.log_levels import set_levels
from oncelog_broker.logging import configure_logging
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span
from oncelog_runtime.channel import RequestChannel
from support.cluster import Cluster
from support.hand_records import produce
from support.server import HELLO, RawPeer
from support.waiting import eventually

SMALL = encode_batch([b"x"], timestamps=1)
Leave = Callable[[Any], None]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """It has all that a process would write, in detail."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    out = io.StringIO()
    configure_logging("json", "debug", 1, out)
    yield out
    root.handlers[:] = handlers
    set_levels("debug", {})
    root.setLevel(level)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def lost(out: io.StringIO) -> int:
    """Count connections that the broker has seen the end of."""
    return sum(line["event"] == "connection_lost" for line in lines(out))


def have_been_lost(out: io.StringIO, count: int) -> bool:
    return lost(out) >= count


def leave_politely(transport: Any) -> None:
    transport.close()


def leave_with_a_reset(transport: Any) -> None:
    """Leave as a process does that dies with unread bytes: the kernel answers with RST."""
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def fetch(wait_ms: int, offset: int) -> FetchRequest:
    wanted = [FetchTopic("t", [FetchPartition(0, offset, 1 << 24)])]
    return FetchRequest(-1, -1, wait_ms, 1, 1 << 24, 0, -1, wanted)


def transport_of(channel: RequestChannel) -> Any:
    return channel._transport


async def raw_stages(cluster: Cluster, leave: Leave) -> int:
    """Leave before, within and after the first request. Returns how many connections went."""
    address = cluster.brokers[1].addresses["external"]
    for first in (b"", HELLO[:3], HELLO[:-1], HELLO, HELLO + HELLO[:9]):
        peer = await RawPeer.connect(address)
        peer.send(first)
        if first.startswith(HELLO):
            await peer.response()
        leave(peer.writer.transport)
    return 5


async def request_stages(cluster: Cluster, leave: Leave) -> int:
    """Leave while requests are parked, and while large answers are on their way."""
    leader = cluster.leader("t")
    waiting = await cluster.channel(leader)
    waiting.send(fetch(30_000, 3), callback=lambda *_: None)
    appending = await cluster.channel(leader)
    topics = [ProduceTopic("t", [ProducePartition(0, Span(0, len(SMALL)))])]
    for _ in range(50):
        request = ProduceRequest(None, -1, 30_000, topics)
        appending.send(request, [SMALL], callback=lambda *_: None)
    reading = await cluster.channel(leader)
    transport_of(reading).pause_reading()
    for _ in range(20):
        reading.send(fetch(0, 0), callback=lambda *_: None)
    broker = cluster.brokers[leader]
    await eventually(
        lambda: sum(len(each.connections) for each in broker.listeners.values()) >= 3,
        timeout_s=10,
        what="the connections",
    )
    for channel in (waiting, appending, reading):
        leave(transport_of(channel))
        channel.close()
    return 3


async def client_stages(cluster: Cluster, leave: Leave) -> int:
    """Break the connections of clients of the SDK, a member of a group among them."""
    async with (
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
        Consumer(
            "t",
            group_id="g",
            bootstrap_servers=cluster.bootstrap,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        await producer.send("t", b"before")
        await consumer.getone()
        broken = 0
        for client in (producer, consumer):
            for slot in list(client._router.connections._slots.values()):
                if slot.channel is not None and not slot.channel.closed:
                    leave(transport_of(slot.channel))
                    broken += 1
        await producer.send("t", b"after")
        while (await consumer.getone()).value != b"after":
            pass
    assert broken >= 3
    return broken


@pytest.mark.parametrize("leave", [leave_politely, leave_with_a_reset])
async def test_no_stage_leaves_a_traceback(leave: Leave, tmp_path: Path, log: io.StringIO) -> None:
    async with Cluster(tmp_path, brokers=2, offsets_topic_num_partitions=1) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        channel = await cluster.channel(cluster.leader("t"))
        for _ in range(3):
            assert not (await produce(channel, "t", 0, [b"x" * 900_000])).error_code
        channel.close()
        for stage in (raw_stages, request_stages, client_stages):
            before = lost(log)
            wanted = before + await stage(cluster, leave)
            await eventually(
                partial(have_been_lost, log, wanted),
                timeout_s=10,
                what=f"the broker seeing the ends of {stage.__name__}",
            )
        # The peers of a broker are brokers too: fetches and orders lose their connections.
        follower = next(i for i in cluster.brokers if i != cluster.leader("t"))
        await cluster.crash_broker(follower)
        channel = await cluster.channel(next(iter(cluster.brokers)))
        assert not (await produce(channel, "t", 0, [b"alone"], timeout_ms=10_000)).error_code
        channel.close()
    assert "Traceback" not in log.getvalue()
    told = [line for line in lines(log) if "exception" in line or line["level"] == "error"]
    assert told == []


def test_a_traceback_would_be_seen(log: io.StringIO) -> None:
    try:
        raise ConnectionResetError("by peer")
    except ConnectionResetError:
        logging.getLogger("asyncio").exception("Fatal error on transport")
    assert "Traceback" in log.getvalue()
    assert "exception" in lines(log)[0]
