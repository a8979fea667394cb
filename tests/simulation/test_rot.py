"""Rot strikes where it may, everybody who has to know is told, and the cluster mends it."""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple

from oncelog_broker.log.segment import LOG_SUFFIX
from oncelog_protocol.records.batch import verify_crc
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


def test_only_one_copy_that_is_counted_on_is_bad_at_a_time() -> None:
    """Seed 156293846: one of three rotted, the leader lost its disk, and before anybody knew the
    disk of the third could not be written to. It left an ISR of two with nothing whole in it."""
    loop = SimLoop(5)

    async def story() -> None:
        world = await _in_sync(loop, Knobs(partitions=1, log_scrub_interval_ms=600_000), writes=5)
        cluster, rots = world.cluster, world.rots
        chance = SeededEntropy(4)
        assert _hurt(rots, chance, 1)
        assert not _hurt(rots, chance, 2)
        assert [rots.atlas.may_wipe(broker_id) for broker_id in cluster.ids] == [True, False, False]
        cluster.crash_broker(1)  # out of the ISR, and without knowing what it will come back with
        await until(lambda: 1 not in _isr(cluster), timeout_s=30, what="a smaller ISR")
        assert not _hurt(rots, chance, 2)
        cluster.start_broker(1)  # the start finds it
        await until(rots.mended, timeout_s=30, what="mended")
        assert _hurt(rots, chance, 2)

    loop.run(story())


def _isr(cluster: SimCluster) -> list[int]:
    data = cluster.partition_state("t", 0)
    assert data is not None
    isr: list[int] = json.loads(data)["isr"]
    return isr


def _hurt(rots: Rots, chance: SeededEntropy, broker_id: int) -> bool:
    """Let a log of one broker rot, if that may be."""
    for _ in range(20):
        rot = rots.strike(chance, broker_id, tails_too=True)
        if rot is not None and rot.path.endswith(LOG_SUFFIX):
            return True
    return False


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
