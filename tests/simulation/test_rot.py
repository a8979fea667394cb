"""Rot strikes where it may, everybody who has to know is told, and the cluster mends it."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from oncelog_broker.log.segment import LOG_SUFFIX
from oncelog_protocol.records.batch import verify_crc
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.atlas import Rot
from simulation.cluster import SimCluster
from simulation.invariants import Invariants
from simulation.knobs import Knobs
from simulation.loop import SimLoop, until
from simulation.rot import Rots
from simulation.workload import Workload


class _World(NamedTuple):
    cluster: SimCluster
    invariants: Invariants
    rots: Rots
    workload: Workload


async def _in_sync(loop: SimLoop, knobs: Knobs, *, writes: int) -> _World:
    """Start a cluster, write to it, and wait until nothing is missing anywhere."""
    cluster = SimCluster(loop, knobs, SeededEntropy(3))
    invariants = Invariants(cluster)
    rots = Rots(cluster, invariants)
    await cluster.start()
    workload = Workload(cluster, SeededEntropy(2), lambda _: None)
    await workload.create_topic()
    for _ in range(writes):
        await workload.probe(timeout_s=10)
    await until(rots.mended, timeout_s=10, what="all in sync")
    return _World(cluster, invariants, rots, workload)


def test_rot_is_found_and_mended_wherever_it_strikes() -> None:
    """On leader and followers, while the brokers run, and before one of them restarts."""
    loop = SimLoop(3)
    struck: list[Rot] = []

    async def story() -> None:
        world = await _in_sync(loop, Knobs(partitions=1, log_scrub_interval_ms=500), writes=10)
        cluster, invariants, rots = world.cluster, world.invariants, world.rots
        chance = SeededEntropy(4)
        for broker_id in (1, 2, 3, 1):
            invariants.check(loop.now_s)
            rot = rots.strike(chance, broker_id, tails_too=True)
            while rot is None or not rot.path.endswith(LOG_SUFFIX):
                rot = rots.strike(chance, broker_id, tails_too=True)
            struck.append(rot)
            assert not rots.mended()
            assert rots.atlas.unsound() == [(broker_id, "t-0")]
            if len(struck) == 4:
                cluster.crash_broker(broker_id, hold=False)
            for _ in range(300):
                invariants.check(loop.now_s)
                await asyncio.sleep(0.05)
                if rots.mended():
                    break
            assert rots.mended()
            await world.workload.probe(timeout_s=10)
        await until(rots.mended, timeout_s=10, what="all in sync")
        invariants.quiescent_check(converged=False)

    loop.run(story())
    assert len(struck) == 4


def test_the_last_good_copy_does_not_rot() -> None:
    loop = SimLoop(5)

    async def story() -> None:
        world = await _in_sync(loop, Knobs(partitions=1, log_scrub_interval_ms=600_000), writes=5)
        cluster, rots = world.cluster, world.rots
        chance = SeededEntropy(4)
        hurt = []
        for broker_id in (1, 2, 3):
            for _ in range(20):
                rot = rots.strike(chance, broker_id, tails_too=True)
                if rot is not None and rot.path.endswith(LOG_SUFFIX):
                    hurt.append(broker_id)
                    break
        assert hurt == [1, 2]
        assert not rots.atlas.may_wipe(3)
        assert TopicPartition("t", 0) in [
            replica.topic_partition for replica in cluster.brokers[3].replicas.partitions()
        ]

    loop.run(story())


def test_rot_may_strike_before_anybody_has_looked() -> None:
    """The invariants know the log as it was; they also see what lies on the disk."""
    loop = SimLoop(7)

    async def story() -> None:
        world = await _in_sync(loop, Knobs(partitions=1, log_scrub_interval_ms=600_000), writes=5)
        invariants, rots = world.invariants, world.rots
        chance = SeededEntropy(4)
        struck = [rots.strike(chance, 1, tails_too=True) for _ in range(100)]
        invariants.check(loop.now_s)
        logs = {rot.path for rot in struck if rot is not None and rot.batch}
        assert logs
        for truth in invariants._truths.values():
            view = truth.replicas[1].view
            assert view is not None
            seen = [view.batch_bytes(index) for index in range(len(view.batches))]
            for data in seen:
                verify_crc(data)
            on_disk = [view.bytes_on_disk(index) for index in range(len(view.batches))]
            rotten = any(path.startswith(f"{view.log.directory}/") for path in logs)
            assert (on_disk != seen) == rotten

    loop.run(story())
