"""This measures how long rebalances of a large group take, and what readers notice meanwhile.

All members live in one process, each with connections of its own, so what is measured is the
cluster's work and the work of all members on one core. Values carry the time at which they were
sent; had reading stopped for a rebalance, records would be as late as the rebalance is long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from oncelog import Consumer, Producer, RebalanceListener, TopicPartition

POLL_MS = 200
DEADLINE_S = 120.0


@dataclass(slots=True)
class Rebalance:
    """These are the figures of one repeat.

    ``quiet`` and ``staying`` are lateness in ms, of records read while nothing happened, and of
    partitions that kept their member while the group rebalanced.
    """

    all_joined_s: float = 0.0
    one_joined_s: float = 0.0
    one_left_s: float = 0.0
    moved: int = 0
    """Partitions that were taken from a member because another one joined."""
    quiet: list[float] = field(default_factory=list)
    staying: list[float] = field(default_factory=list)


class _Group:
    """The group knows its members, who owns what, and how late records are."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, name: str, heartbeat_interval_ms: int
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._name = name
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self.seats: list[_Seat] = []
        self.changed = asyncio.Event()
        self.late: list[tuple[int, float]] = []
        """(partition, ms), since it was last emptied."""
        self.moved: dict[int, None] = {}
        """Partitions that changed hands, since it was last emptied."""

    async def join(self, count: int) -> None:
        """Start so many members at once."""
        seats = [_Seat(self) for _ in range(count)]
        self.seats += seats
        await asyncio.gather(*(seat.start() for seat in seats))

    def consumer(self) -> Consumer:
        return Consumer(
            bootstrap_servers=self._bootstrap,
            group_id=self._name,
            auto_offset_reset="latest",
            partition_assignment_strategy=("cooperative-sticky",),
            heartbeat_interval_ms=self._heartbeat_interval_ms,
        )

    async def balanced(self) -> None:
        """Wait until every partition has one owner and nobody has two more than another."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                self.changed.clear()
                counts = [len(seat.owned) for seat in self.seats]
                if sum(counts) == self._partitions and max(counts) - min(counts) <= 1:
                    return
                await self.changed.wait()

    async def close(self) -> None:
        await asyncio.gather(*(seat.close() for seat in self.seats))


class _Seat(RebalanceListener):
    """A seat is one member; it is the listener of its consumer."""

    def __init__(self, group: _Group) -> None:
        self.owned: set[int] = set()
        self._group = group
        self._consumer = group.consumer()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._consumer.start()
        self._consumer.subscribe(topics=[self._group._topic], listener=self)
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        late = self._group.late
        while True:
            polled = await self._consumer.getmany(timeout_ms=POLL_MS)
            now = time.perf_counter()
            for tp, records in polled.items():
                for record in records:
                    assert record.value is not None
                    late.append((tp.partition, (now - float(record.value)) * 1000))

    async def close(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._consumer.close()
        self.owned.clear()

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.owned |= {tp.partition for tp in partitions}
        self._group.changed.set()

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.owned -= {tp.partition for tp in partitions}
        self._group.moved.update(dict.fromkeys(tp.partition for tp in partitions))
        self._group.changed.set()

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        raise RuntimeError(f"a member lost {len(partitions)} partitions: it was thrown out")


async def _produce(bootstrap: str, topic: str, partitions: int, rate: int) -> None:
    """Send ``rate`` records a second together, to all partitions in turn."""
    async with Producer(bootstrap, acks=1, linger_ms=0) as producer:
        began = time.perf_counter()
        sent = 0
        while True:
            due = int((time.perf_counter() - began) * rate) + 1
            while sent < due:
                value = b"%.6f" % time.perf_counter()
                await producer.enqueue(topic, value, partition=sent % partitions)
                sent += 1
            await asyncio.sleep(0.002)


async def measure(
    bootstrap: str,
    topic: str,
    *,
    members: int,
    partitions: int,
    rate: int,
    name: str,
    heartbeat_interval_ms: int,
) -> Rebalance:
    """Members join together; then one more joins; then one leaves; all of it under load."""
    found = Rebalance()
    group = _Group(bootstrap, topic, partitions, name, heartbeat_interval_ms)
    producing = asyncio.create_task(_produce(bootstrap, topic, partitions, rate))
    try:
        began = time.perf_counter()
        await group.join(members)
        await group.balanced()
        found.all_joined_s = time.perf_counter() - began
        await asyncio.sleep(2.0)  # what had piled up has been read

        group.late.clear()
        await asyncio.sleep(4.0)
        found.quiet = [ms for _, ms in group.late]

        group.late.clear()
        group.moved.clear()
        began = time.perf_counter()
        await group.join(1)
        await group.balanced()
        found.one_joined_s = time.perf_counter() - began
        await asyncio.sleep(1.0)  # records that were sent meanwhile are read
        found.moved = len(group.moved)
        found.staying = [ms for partition, ms in group.late if partition not in group.moved]

        await asyncio.sleep(heartbeat_interval_ms / 1000)  # members ask often after a rebalance
        leaver = group.seats.pop()
        began = time.perf_counter()
        await leaver.close()
        await group.balanced()
        found.one_left_s = time.perf_counter() - began
        if producing.done():
            producing.result()
        return found
    finally:
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)
        await group.close()
