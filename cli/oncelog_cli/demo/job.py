"""The demo's job sends the flights, kills a leader in the middle, and reads everything back.

Rules: rows are sent in file order, keyed by carrier, at ``acks="all"``, with a default producer;
the reader starts from nothing and reads to the end. What is counted goes into the ``Ledger``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from oncelog import Admin, Consumer, Delivery, NewTopic, Producer, TopicPartition
from oncelog_cli.demo.flights import Flight, read_flights, row_of
from oncelog_cli.demo.verdict import DemoVerdict, Ledger
from oncelog_cli.demo.view import DemoSnapshot, DemoView, PartitionLine
from oncelog_cli.documents.answer import fields_of
from oncelog_cli.local.cluster import LocalCluster

TOPIC = "flights"
PARTITIONS = 6
PACE_S = 0.01
"""The producer sends what is due in steps of this length."""
WATCH_S = 0.25
HEAL_DEADLINE_S = 60.0


class DemoJob:
    """A job is one run over one cluster."""

    def __init__(self, path: Path, *, limit: int, rate: int) -> None:
        self._path = path
        self._total = limit
        self._rate = rate
        self._ledger = Ledger()
        self._killed_at: float | None = None
        self._acked_after_kill_at: float | None = None
        self._killed_leader = -1
        self._victims: frozenset[int] = frozenset()
        """Partitions that lost their leader."""
        self._first_after_kill = 0

    async def run(self, cluster: LocalCluster, view: DemoView) -> DemoVerdict:
        """Run the whole story, and return the verdict."""
        async with Admin(cluster.bootstrap) as admin:
            topic = NewTopic(TOPIC, PARTITIONS, 3, {"min_insync_replicas": "2"})
            (await admin.create_topics([topic])).raise_for_errors()
            view.say(
                f"Topic {TOPIC}: {PARTITIONS} partitions, 3 replicas each, min.insync.replicas 2."
            )
            watching = asyncio.create_task(self._watch(admin, view))
            try:
                await self._produce(cluster, admin, view)
                await self._bring_back(cluster, admin, view)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        view.say("Reading everything back from the beginning ...")
        await self._read_back(cluster.bootstrap)
        return self._ledger.verdict(
            leaders_killed=int(self._killed_at is not None),
            failover_seconds=self._failover_seconds(),
        )

    # ---- producing

    async def _produce(self, cluster: LocalCluster, admin: Admin, view: DemoView) -> None:
        loop = asyncio.get_running_loop()
        view.say(f"Sending {self._total:,} flights at {self._rate:,} records/s ...")
        flights = read_flights(self._path, limit=self._total)
        async with Producer(cluster.bootstrap) as producer:
            began = loop.time()
            for sent, flight in enumerate(flights):
                if sent == self._total // 2:
                    await self._kill_a_leader(cluster, admin, view)
                if sent % max(1, int(self._rate * PACE_S)) == 0:
                    await asyncio.sleep(max(0.0, began + sent / self._rate - loop.time()))
                await self._send(producer, flight)
            await producer.flush()

    async def _send(self, producer: Producer, flight: Flight) -> None:
        delivery = await producer.enqueue(TOPIC, flight.value, key=flight.key)
        self._ledger.on_sent()
        delivery.add_done_callback(partial(self._on_done, flight.row))

    def _on_done(self, row: int, delivery: Delivery) -> None:
        if delivery.exception() is not None:
            return
        self._ledger.on_acknowledged(row)
        waiting = self._killed_at is not None and self._acked_after_kill_at is None
        if (
            waiting
            and row >= self._first_after_kill
            and delivery.result().partition in self._victims
        ):
            self._acked_after_kill_at = asyncio.get_running_loop().time()

    async def _kill_a_leader(self, cluster: LocalCluster, admin: Admin, view: DemoView) -> None:
        partitions = (await admin.describe_topics([TOPIC]))[0].partitions
        leader = partitions[0].leader
        self._victims = frozenset(p.partition for p in partitions if p.leader == leader)
        self._killed_leader = leader
        self._first_after_kill = self._ledger.sent
        self._killed_at = asyncio.get_running_loop().time()
        cluster.broker(leader).kill()
        view.say(
            f"kill -9 of broker {leader}, leader of partitions "
            f"{', '.join(map(str, sorted(self._victims)))}."
        )

    def _failover_seconds(self) -> float | None:
        if self._killed_at is None or self._acked_after_kill_at is None:
            return None
        return round(self._acked_after_kill_at - self._killed_at, 3)

    async def _bring_back(self, cluster: LocalCluster, admin: Admin, view: DemoView) -> None:
        if self._killed_at is None:
            return
        gap = self._failover_seconds()
        if gap is not None:
            view.say(f"Its partitions acknowledged again after {gap:.2f} s, under new leaders.")
        view.say(f"Starting broker {self._killed_leader} again ...")
        await asyncio.to_thread(cluster.start_broker, self._killed_leader)
        async with asyncio.timeout(HEAL_DEADLINE_S):
            while True:
                partitions = (await admin.describe_topics([TOPIC]))[0].partitions
                if all(len(p.isr) == len(p.replicas) for p in partitions):
                    break
                await asyncio.sleep(WATCH_S)
        view.say("Every partition has three in-sync replicas again.")

    # ---- watching

    async def _watch(self, admin: Admin, view: DemoView) -> None:
        loop = asyncio.get_running_loop()
        began = previous_at = loop.time()
        previous = 0
        while True:
            await asyncio.sleep(WATCH_S)
            partitions = (await admin.describe_topics([TOPIC]))[0].partitions
            marks = await self._high_watermarks(admin)
            now = loop.time()
            acknowledged = self._ledger.acknowledged
            snapshot = DemoSnapshot(
                [
                    PartitionLine(
                        **fields_of(p, "partition leader leader_epoch isr replicas"),
                        high_watermark=marks.get((p.partition, p.leader), 0),
                    )
                    for p in partitions
                ],
                (await admin.describe_cluster()).controller_id,
                acknowledged,
                self._total,
                (acknowledged - previous) / (now - previous_at),
                now - began,
            )
            previous, previous_at = acknowledged, now
            view.show(snapshot)

    async def _high_watermarks(self, admin: Admin) -> dict[tuple[int, int], int]:
        """Return the high watermark that each broker knows, by (partition, broker)."""
        return {
            (replica.partition.partition, log_dir.broker_id): replica.high_watermark
            for log_dir in await admin.describe_log_dirs()
            for replica in log_dir.replicas
            if replica.partition.topic == TOPIC
        }

    # ---- reading

    async def _read_back(self, bootstrap: str) -> None:
        async with Consumer(
            TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
            ends = await consumer.end_offsets(partitions)
            left = sum(ends.values())
            if not left:
                return
            async for batch in consumer.batches():
                for value in batch.values:
                    self._ledger.on_read(batch.partition, row_of(value or b"{}"))
                left -= len(batch.values)
                if left <= 0:
                    return
