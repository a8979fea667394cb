"""A steady producer serves failure tests, and what it was promised is checked.

Numbered values go to the partitions in turn, one by one. Producer and consumer record themselves in
one history, which ``verify`` gives to the simulator's checkers: nothing acknowledged is lost,
misplaced or misordered, readers skip nothing, and so on.
"""

from __future__ import annotations

import asyncio

from oncelog import Consumer, Delivery, HistoryRecorder, Producer, Security, TopicPartition
from simulation.checkers.replicas import AllReplicas
from simulation.checkers.verdict import failures, summary, verdict
from simulation.checkers.violation import Rules
from simulation.history import History, HistoryEvent, value_of


class Workload:
    """``async with Workload(...)``: produces until the block ends, then awaits all deliveries."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        rate: int = 400,
        security: Security | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._stop = asyncio.Event()
        self._moved = asyncio.Event()
        self._clock = asyncio.get_running_loop().time
        self.events: list[HistoryEvent] = []
        self.sent = 0
        self.acknowledged = 0
        self.failed: list[BaseException] = []

    async def __aenter__(self) -> Workload:
        self._task = asyncio.create_task(self._run())
        await self.wait_for(50)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Send no more, and wait until everything is acknowledged. Again, it does nothing."""
        self._stop.set()
        await self._task

    def move(self, bootstrap: str, security: Security | None) -> None:
        """Have the producer leave when all is acknowledged, and another one go on elsewhere."""
        self._bootstrap, self._security = bootstrap, security
        self._moved.set()

    async def wait_for(self, more: int, *, timeout_s: float = 60) -> None:
        """Wait until ``more`` records than now are acknowledged: the cluster takes writes."""
        goal = self.acknowledged + more
        async with asyncio.timeout(timeout_s):
            while self.acknowledged < goal:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.02)

    async def _run(self) -> None:
        recorder = HistoryRecorder("writer", self.events.append, self._clock)
        while not self._stop.is_set():
            self._moved.clear()
            await self._produce(recorder)

    async def _produce(self, recorder: HistoryRecorder) -> None:
        async with Producer(
            self._bootstrap, acks="all", linger_ms=2, history=recorder, security=self._security
        ) as producer:
            while not (self._stop.is_set() or self._moved.is_set()):
                partition = self.sent % self._partitions
                value = value_of(self._topic, partition, "writer", self.sent)
                self.sent += 1
                delivery = await producer.enqueue(self._topic, value, partition=partition)
                delivery.add_done_callback(self._on_done)
                await asyncio.sleep(1 / self._rate)
            await producer.flush()

    def _on_done(self, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(error)

    async def read_back(self) -> int:
        """Read the topic from its beginning to its end as it is now; returns how many records."""
        everything = [TopicPartition(self._topic, index) for index in range(self._partitions)]
        recorder = HistoryRecorder("reader", self.events.append, self._clock)
        count = 0
        async with Consumer(
            bootstrap_servers=self._bootstrap,
            auto_offset_reset="earliest",
            history=recorder,
            security=self._security,
        ) as consumer:
            consumer.assign(everything)
            await consumer.seek_to_beginning()
            ends = await consumer.end_offsets(everything)
            positions = dict.fromkeys(everything, 0)
            async with asyncio.timeout(60):
                while any(positions[tp] < ends[tp] for tp in everything):
                    for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                        count += len(records)
                        if records:
                            positions[tp] = records[-1].offset + 1
        return count

    async def verify(self, replicas: AllReplicas) -> None:
        """Read everything back and assert that every promise was kept.

        :param replicas: what the brokers have on disk.
        """
        read = await self.read_back()
        assert read >= self.acknowledged
        rules = Rules(idempotent=True, offsets_told=True)
        found = failures(verdict(History.from_events(self.events), rules, replicas=replicas))
        assert not found, summary(found)
