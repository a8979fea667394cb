"""Partitions move between real processes while they are written, and nothing is lost or doubled.

A partition that is written all the time goes from one broker to another by the command line, over
a change of its leader: the old leader is not among the replicas any more. The second test kills
brokers with the copy half done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from integration.processes import DEADLINE_S, Processes
from integration.workload import Workload
from oncelog import HistoryRecorder, NewTopic, Producer, TopicPartition
from simulation.history import value_of
from support.shell import Shown, oncelog
from support.waiting import eventually

pytestmark = pytest.mark.integration

TOPIC = "wanderers"
PARTITIONS = 2
MOVING = TopicPartition(TOPIC, 0)
OLD, STAYS, NEW = 1, 2, 3
"""The partition goes from OLD, which leads it, to NEW."""
PADDING = b"\0" * 500_000
PADDED = 160
"""So many large records make a copy that takes a while: 80 MB."""


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running; both partitions of a fresh topic are at the same two."""
    async with processes.admin() as admin:
        new = NewTopic(
            TOPIC, assignment=[[OLD, STAYS]] * PARTITIONS, configs={"min_insync_replicas": "2"}
        )
        (await admin.create_topics([new])).raise_for_errors()
    await processes.wait_isr(TOPIC, 2)
    yield processes
    await processes.heal()
    await processes.delete_topic(TOPIC)


@pytest_asyncio.fixture
async def load(cluster: Processes) -> AsyncIterator[Workload]:
    """Records come in all the time; the partition that moves has a good deal of them already."""
    async with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        loop = asyncio.get_running_loop()
        recorder = HistoryRecorder("filler", load.events.append, loop.time)
        async with Producer(cluster.bootstrap, acks="all", history=recorder) as producer:
            for number in range(PADDED):
                value = value_of(TOPIC, MOVING.partition, "filler", number)
                headers = [("padding", PADDING)]
                await producer.enqueue(TOPIC, value, partition=MOVING.partition, headers=headers)
            await producer.flush()
        yield load


async def partitions(cluster: Processes, *words: str) -> Shown:
    return await oncelog("partitions", *words, bootstrap=cluster.bootstrap)


async def move(cluster: Processes) -> None:
    shown = await partitions(cluster, "move", f"{TOPIC}:0", "--to", f"{NEW},{STAYS}", "--yes")
    assert shown.code == 0, shown.err


async def wait_until_done(cluster: Processes) -> None:
    limit = f"{DEADLINE_S:g}s"
    shown = await partitions(
        cluster, "status", "--watch", "--exit-when-done", "--interval", "100ms", "--timeout", limit
    )
    assert shown.code == 0, shown.out + shown.err


def directories(cluster: Processes, broker_id: int) -> list[Path]:
    """Return where a broker has the partition that moves; a deletion may be under way there."""
    return list(cluster.cluster.broker(broker_id).data_path.glob(f"{MOVING}*"))


def copied(cluster: Processes) -> int:
    """Return how many bytes the new replica has on disk."""
    logs = [log for each in directories(cluster, NEW) for log in each.glob("*.log")]
    return sum(log.stat().st_size for log in logs)


async def verify(cluster: Processes, load: Workload) -> None:
    """All that was acknowledged is there once, in order, and at the new replicas alone."""
    await load.wait_for(50)
    await load.stop()
    assert load.failed == []
    assert load.acknowledged == load.sent
    async with cluster.admin() as admin:
        (topic,) = await admin.describe_topics([TOPIC])
    assert [item.replicas for item in topic.partitions] == [(NEW, STAYS), (OLD, STAYS)]
    await cluster.wait_isr(TOPIC, 2)
    await load.verify(await cluster.replicas(TOPIC))
    assert await load.read_back() == load.acknowledged + PADDED, "no record is there twice"
    await eventually(
        lambda: directories(cluster, OLD) == [],
        timeout_s=DEADLINE_S,
        what="nothing of the partition being left at the old broker",
    )


async def test_a_partition_moves_while_it_is_written(cluster: Processes, load: Workload) -> None:
    await move(cluster)
    await wait_until_done(cluster)
    await verify(cluster, load)


Damage = Callable[[Processes, Workload], Awaitable[int]]


async def kill_receiver(cluster: Processes, load: Workload) -> int:
    cluster.kill(NEW)
    assert copied(cluster) < PADDED * len(PADDING)
    await load.wait_for(100)  # two of the original replicas are in sync
    return NEW


async def kill_old_leader(cluster: Processes, load: Workload) -> int:
    cluster.kill(OLD)
    await cluster.wait_for_leader_other_than(OLD, TOPIC, 0)
    return OLD


async def kill_controller(cluster: Processes, load: Workload) -> int:
    controller = await cluster.controller()
    cluster.kill(controller)
    return controller


@pytest.mark.parametrize(
    "damage", [kill_receiver, kill_old_leader, kill_controller], ids=lambda each: each.__name__
)
async def test_a_broker_dies_in_the_middle_of_the_copy(
    cluster: Processes, load: Workload, damage: Damage
) -> None:
    await move(cluster)
    await eventually(
        lambda: copied(cluster) > 0,
        timeout_s=DEADLINE_S,
        what="the first bytes of the copy",
    )
    dead = await damage(cluster, load)
    await cluster.restart(dead)
    await wait_until_done(cluster)
    await verify(cluster, load)
