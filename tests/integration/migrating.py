"""Applications work while a cluster changes, and move to another listener when it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from integration.copier import Copier, CopierOptions
from integration.workload import Workload
from oncelog import Consumer, Security
from oncelog.errors import OncelogError

__all__ = ["Applications", "Reader"]

RATE = 100
"""Records a second: the test is about changes, not about speed."""


class Reader:
    """It is a group of one, which commits what it has read.

    :param values: what it has read, by partition, in order.
    """

    def __init__(self, topic: str, values: dict[int, list[bytes]]) -> None:
        self._topic = topic
        self._values = values
        self._stop = asyncio.Event()

    async def run(self, bootstrap: str, security: Security | None) -> None:
        """Read until told to stop."""
        async with Consumer(
            self._topic,
            bootstrap_servers=bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            security=security,
        ) as consumer:
            while not self._stop.is_set():
                polled = await consumer.getmany(timeout_ms=100)
                for tp, records in polled.items():
                    self._values[tp.partition] += [record.value or b"" for record in records]
                if polled:
                    await consumer.commit()

    def stop(self) -> None:
        """Have it leave its group when it has committed."""
        self._stop.set()


class Applications:
    """It has an idempotent producer, a group and a transactional copier: ``async with``.

    A failure of any of them ends the test with its error.
    """

    def __init__(self, bootstrap: str, topic: str, copies: str, partitions: int) -> None:
        self._place: tuple[str, Security | None] = (bootstrap, None)
        self._topic, self._copies = topic, copies
        self.load = Workload(bootstrap, topic, partitions, rate=RATE)
        self.read: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self.not_committed: list[OncelogError] = []
        """Transactions of the copier ended so, though nobody wanted it."""
        self._running: list[asyncio.Task[object]] = []
        self._stops: list[Callable[[], None]] = []
        self._copied = 0
        self._copier: Copier | None = None

    async def __aenter__(self) -> Applications:
        await self.load.__aenter__()
        self._start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.load.stop()

    def _start(self) -> None:
        bootstrap, security = self._place
        reader = Reader(self._topic, self.read)
        options = CopierOptions(
            bootstrap, self._topic, self._copies, "copiers", "copier", seed=1, rate=3 * RATE
        )
        copier = self._copier = Copier(options, security)
        self._stops = [reader.stop, copier.stop.set]
        work = (reader.run(bootstrap, security), copier.run())
        self._running = [asyncio.ensure_future(each) for each in work]

    async def _stop(self) -> None:
        for stop in self._stops:
            stop()
        await asyncio.gather(*self._running)
        assert self._copier is not None
        self._copied += self._copier.copied
        self.not_committed += self._copier.not_committed
        self._running = []

    async def move(self, bootstrap: str, security: Security | None) -> None:
        """Have all of them leave, and come again through another listener."""
        self._place = (bootstrap, security)
        await self._stop()
        self.load.move(bootstrap, security)
        self._start()
        await self.wait_for(50)

    async def wait_for(self, more: int) -> None:
        """Wait until so many records more are written and read."""
        await self.load.wait_for(more)
        await self._until(lambda: self._count() >= self.load.acknowledged - RATE)

    async def finish(self) -> None:
        """Write no more, and wait until all is read and copied."""
        await self.load.stop()
        await self._until(lambda: self._count() >= self.load.sent)
        await self._until(lambda: self._copied_now() >= self.load.sent)
        await self._stop()

    def _count(self) -> int:
        return sum(map(len, self.read.values()))

    def _copied_now(self) -> int:
        return self._copied + (0 if self._copier is None else self._copier.copied)

    async def _until(self, condition: Callable[[], bool], timeout_s: float = 60) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                for task in self._running:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.05)
