"""This measures a failover: from kill -9 of a partition's leader to the next acknowledgement.

With a history, clients record what they did and were told, for the checkers of the tests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from oncelog import (
    Admin,
    Consumer,
    Delivery,
    HistoryRecorder,
    NewTopic,
    Producer,
    TopicPartition,
)
from oncelog.history_events import HistoryEvent
from oncelog_bench.cluster import BenchCluster

RATE = 500

Sink = Callable[[HistoryEvent], None]


async def kill_leader(
    cluster: BenchCluster,
    topic: str,
    *,
    want_controller: bool,
    turn: int = 0,
    history: Sink | None = None,
) -> float:
    """Return the seconds from the kill to the first acknowledgement of a record sent after it.

    One partition, 500 records/s, acks=all. The killed broker is started again afterwards, and the
    function returns when the ISR is whole. Values name their partition, the turn and a number.
    """
    async with Admin(cluster.bootstrap) as admin:
        if want_controller:
            await _lead_with_controller(cluster, admin, topic)
        leader = (await admin.describe_topics([topic]))[0].partitions[0].leader
        pids = cluster.pids()
        name = f"turn-{turn}"
        recorder = _recorder(name, history)
        async with Producer(
            cluster.bootstrap, acks="all", linger_ms=0, history=recorder
        ) as producer:
            await producer.send(topic, _value(topic, name, 0))
            elapsed = await _gap(producer, topic, name, lambda: cluster.kill(pids[leader]))
        await asyncio.to_thread(cluster.restart)
        await wait_isr(admin, topic, len(cluster.broker_ids))
        return elapsed


def _recorder(name: str, history: Sink | None) -> HistoryRecorder | None:
    return None if history is None else HistoryRecorder(name, history, time.monotonic)


def _value(topic: str, name: str, number: int) -> bytes:
    return f"{topic}/0/{name}/{number}/".encode().ljust(100, b"x")


async def _gap(producer: Producer, topic: str, name: str, kill: Callable[[], None]) -> float:
    acked = asyncio.Event()
    killed_at = 0.0
    first_ack = 0.0

    def on_done(sent_at: float, delivery: Delivery) -> None:
        nonlocal first_ack
        if delivery.exception() is None and killed_at and sent_at > killed_at and not first_ack:
            first_ack = time.perf_counter()
            acked.set()

    async def pump() -> None:
        number = 0
        while not acked.is_set():
            number += 1
            sent_at = time.perf_counter()
            delivery = await producer.enqueue(topic, _value(topic, name, number))
            delivery.add_done_callback(partial(on_done, sent_at))
            await asyncio.sleep(1 / RATE)

    pumping = asyncio.create_task(pump())
    await asyncio.sleep(0.5)
    killed_at = time.perf_counter()
    kill()
    await asyncio.wait_for(acked.wait(), 60)
    await pumping
    return first_ack - killed_at


async def read_back(cluster: BenchCluster, topic: str, history: Sink) -> None:
    """Read what partition 0 of ``topic`` holds to its end, for the history."""
    only = TopicPartition(topic, 0)
    async with Consumer(
        bootstrap_servers=cluster.bootstrap, history=_recorder("reader", history)
    ) as consumer:
        consumer.assign([only])
        await consumer.seek_to_beginning()
        end = (await consumer.end_offsets([only]))[only]
        async with asyncio.timeout(60):
            while await consumer.position(only) < end:
                await consumer.getmany(timeout_ms=500)


async def _lead_with_controller(cluster: BenchCluster, admin: Admin, topic: str) -> None:
    """Kill brokers until the leader of the topic is the controller as well."""
    for _ in range(8):
        controller = (await admin.describe_cluster()).controller_id
        leader = (await admin.describe_topics([topic]))[0].partitions[0].leader
        if leader == controller:
            return
        cluster.kill(cluster.pids()[controller])
        await asyncio.sleep(1.0)
        await asyncio.to_thread(cluster.restart)
        await wait_isr(admin, topic, len(cluster.broker_ids))
    raise RuntimeError("the controller never came to lead the topic")


async def make_topic(bootstrap: str, topic: NewTopic) -> None:
    """Create a topic, and wait until all of its replicas are in sync."""
    async with Admin(bootstrap) as admin:
        (await admin.create_topics([topic], timeout_ms=60_000)).raise_for_errors()
        await wait_isr(admin, topic.topic, topic.replication_factor)


async def wait_isr(admin: Admin, topic: str, size: int, *, timeout_s: float = 60) -> None:
    """Wait until every partition of ``topic`` has a leader and ``size`` in-sync replicas."""
    async with asyncio.timeout(timeout_s):
        while True:
            partitions = (await admin.describe_topics([topic]))[0].partitions
            if all(len(p.isr) == size and p.leader >= 0 for p in partitions):
                return
            await asyncio.sleep(0.05)
