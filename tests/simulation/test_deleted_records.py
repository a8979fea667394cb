"""Deleted records stay deleted in a cluster whose brokers lose their power, are killed and stopped,
all of them at once too: real brokers and clients, on virtual time."""

from __future__ import annotations

import asyncio
import json

import pytest

from oncelog import Admin, OncelogError, Producer
from oncelog_broker.log.log_starts import LogStarts
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.cluster import SimCluster
from simulation.knobs import Knobs
from simulation.loop import until
from simulation.play import play_cluster
from simulation.workload import TOPIC

TP = TopicPartition(TOPIC, 0)
STRIKES = 8
# No checkpoint comes by itself: only those that somebody waits for.
KNOBS = Knobs(partitions=1, log_checkpoint_interval_ms=3_600_000, log_scrub_interval_ms=0)


class Trimmed:
    """It writes records, has the older ones deleted, and remembers what was promised."""

    def __init__(self, cluster: SimCluster, chance: SeededEntropy) -> None:
        self.cluster = cluster
        self.chance = chance
        self.promised = 0
        self.promises = 0
        self.fell_back = 0
        """How far the worst leader lay below what was promised before it was looked at."""

    async def write_and_delete(self) -> None:
        """Go on until its process is killed."""
        async with (
            Producer(
                self.cluster.bootstrap,
                entropy=SeededEntropy(1),
                clock=self.cluster.client_clock,
                acks="all",
                delivery_timeout_ms=4000,
                request_timeout_ms=1000,
            ) as producer,
            Admin(self.cluster.bootstrap, entropy=SeededEntropy(2)) as admin,
        ):
            while True:
                try:
                    deliveries = [await producer.enqueue(TOPIC, b"x" * 20) for _ in range(5)]
                    for delivery in deliveries:
                        await delivery
                    (outcome,) = await admin.delete_records({TP: -1}, timeout_ms=3000)
                except (OncelogError, OSError):
                    continue
                if outcome.error is None:
                    self.promises += 1
                    self.promised = max(self.promised, outcome.low_watermark)

    async def watch(self) -> None:
        """Look at the one that the controller has written down as leader."""
        while True:
            await asyncio.sleep(0.01)
            state = self.cluster.partition_state(*TP)
            found = json.loads(state) if state is not None else {"leader": -1}
            broker = self.cluster.brokers.get(found["leader"])
            if broker is None or found["leader"] not in self.cluster.serving:
                continue
            for partition in broker.replicas.partitions():
                role = partition.leader
                if partition.topic_partition != TP or role is None:
                    continue
                if role.leader_epoch == found["leader_epoch"]:
                    start = partition.log.log_start_offset
                    self.fell_back = max(self.fell_back, self.promised - start)

    async def strike(self) -> None:
        """Somebody goes, or all do, and come back."""
        cluster, chance = self.cluster, self.chance
        victims = chance.choice(
            [[chance.choice(cluster.ids)], [chance.choice(cluster.ids)], cluster.ids]
        )
        for broker_id in victims:
            cluster.crash_broker(broker_id, power=chance.random() < 0.7)
        await asyncio.sleep(chance.choice([0.1, 1.0, 4.0]))
        for broker_id in victims:
            cluster.start_broker(broker_id)
        await until(
            lambda: sorted(cluster.serving) == cluster.ids, timeout_s=30, what="all being back"
        )
        await asyncio.sleep(chance.random() * 3)


def story(seed: int) -> Trimmed:
    async def scene(cluster: SimCluster) -> Trimmed:
        trimmed = Trimmed(cluster, SeededEntropy(seed))
        process = cluster.client_process("trimmer")
        work = asyncio.ensure_future(process.call(trimmed.write_and_delete()))
        watch = asyncio.ensure_future(trimmed.watch())
        await asyncio.sleep(2)
        for _ in range(STRIKES):
            await trimmed.strike()
        await until(
            lambda: len(json.loads(cluster.partition_state(*TP) or b"{}")["isr"]) == 3,
            timeout_s=30,
            what="the whole ISR",
        )
        watch.cancel()
        process.kill()
        await asyncio.wait([work, watch])
        return trimmed

    return play_cluster(scene, KNOBS, seed=seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_was_deleted_stays_so(seed: int) -> None:
    trimmed = story(seed)
    assert trimmed.promises >= STRIKES, "nothing was put to the test"
    assert trimmed.fell_back == 0


def test_a_start_in_memory_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogStarts, "durable", lambda _, log: log.log_start_offset)
    assert story(1).fell_back > 0
