"""Real processes, real ZooKeeper, real signals: what was acknowledged stays, whatever dies.

Every case runs the same workload (acks=all, replication factor 3, min.insync.replicas 2), does
its damage in the middle, and then holds the cluster to the same promises: everything acknowledged
is read back in order, the ISR heals, and the replicas agree byte for byte below the high watermark.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from integration.processes import Processes
from integration.workload import Workload
from oncelog import Admin

pytestmark = pytest.mark.integration

PARTITIONS = 3
TOPIC = "orders"


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running, with a fresh topic of three partitions."""
    await processes.create_topic(TOPIC, PARTITIONS)
    yield processes
    await processes.heal()
    await processes.delete_topic(TOPIC)


Damage = Callable[[Processes, Workload], Awaitable[None]]


async def kill_leader(cluster: Processes, load: Workload) -> None:
    leader = await cluster.leader(TOPIC, 0)
    cluster.kill(leader)
    await load.wait_for(100)
    await cluster.restart(leader)


async def kill_follower(cluster: Processes, load: Workload) -> None:
    leader = await cluster.leader(TOPIC, 0)
    controller = await cluster.controller()
    follower = next(b for b in cluster.broker_ids if b not in (leader, controller))
    cluster.kill(follower)
    await load.wait_for(100)
    await cluster.restart(follower)


async def kill_controller(cluster: Processes, load: Workload) -> None:
    controller = await cluster.controller()
    cluster.kill(controller)
    await load.wait_for(100)
    assert await cluster.controller() != controller
    await cluster.restart(controller)


async def kill_leader_that_is_controller(cluster: Processes, load: Workload) -> None:
    controller = await cluster.controller()
    led = [p for p in range(PARTITIONS) if await cluster.leader(TOPIC, p) == controller]
    assert led, "three partitions over three brokers: the controller leads one"
    cluster.kill(controller)
    await load.wait_for(100)
    assert await cluster.leader(TOPIC, led[0]) != controller
    await cluster.restart(controller)


async def kill_all_at_once(cluster: Processes, load: Workload) -> None:
    for broker in cluster.broker_ids:
        cluster.kill(broker)
    for broker in reversed(cluster.broker_ids):
        cluster.start(broker)
    await cluster.wait_ready()
    await load.wait_for(100)


async def stop_leader_beyond_session(cluster: Processes, load: Workload) -> None:
    """A paused host refuses nothing, so only the session time-out moves its leadership."""
    leader = await cluster.leader(TOPIC, 0)
    cluster.pause(leader)
    await cluster.wait_for_leader_other_than(leader, TOPIC, 0)
    await load.wait_for(100)
    cluster.resume(leader)
    await load.wait_for(100)


async def restart_zookeeper(cluster: Processes, load: Workload) -> None:
    cluster.stop_zookeeper()
    await load.wait_for(100)
    cluster.start_zookeeper()
    await load.wait_for(100)


@pytest.mark.parametrize(
    "damage",
    [
        kill_leader,
        kill_follower,
        kill_controller,
        kill_leader_that_is_controller,
        kill_all_at_once,
        stop_leader_beyond_session,
        restart_zookeeper,
    ],
    ids=lambda damage: damage.__name__,
)
async def test_acknowledged_records_survive(cluster: Processes, damage: Damage) -> None:
    async with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        await damage(cluster, load)
        await load.wait_for(50)
    await cluster.wait_isr(TOPIC, 3)
    await load.verify(await cluster.replicas(TOPIC))


async def test_rolling_restart_under_load_shows_no_error_to_a_default_client(
    cluster: Processes,
) -> None:
    async with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        for broker in cluster.broker_ids:
            await cluster.stop_cleanly(broker)
            await load.wait_for(50)
            await cluster.restart(broker)
            await cluster.wait_isr(TOPIC, 3)
    assert not load.failed
    await load.verify(await cluster.replicas(TOPIC))


async def test_topics_outlive_a_restart_of_everything(cluster: Processes) -> None:
    async with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as load:
        await load.wait_for(50)
    for broker in cluster.broker_ids:
        await cluster.stop_cleanly(broker)
    cluster.stop_zookeeper()
    cluster.start_zookeeper()
    for broker in cluster.broker_ids:
        cluster.start(broker)
    await cluster.wait_ready()
    await cluster.wait_isr(TOPIC, 3)
    await load.verify(await cluster.replicas(TOPIC))
    async with Admin(cluster.bootstrap) as admin:
        names = await admin.list_topics()
    assert TOPIC in names
