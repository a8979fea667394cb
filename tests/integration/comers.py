"""Clients come and go here: each connects anew, so it meets what listeners show now."""

from __future__ import annotations

import asyncio

from oncelog import Consumer, Producer, Security, TopicPartition

__all__ = ["Comers"]

PAUSE_S = 0.05


class Comers:
    """``async with Comers(...)``: one client after the other writes a record, reads it and leaves.

    A client that fails ends the block with its error.
    """

    def __init__(self, bootstrap: str, topic: str, security: Security) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._security = security
        self._stop = asyncio.Event()
        self.served = 0
        """So many clients came, and all were served."""

    async def __aenter__(self) -> Comers:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stop.set()
        await self._task

    async def wait_for(self, more: int, *, timeout_s: float = 30) -> None:
        """Wait until ``more`` clients than now were served.

        :raises OncelogError: one was not.
        """
        goal = self.served + more
        async with asyncio.timeout(timeout_s):
            while self.served < goal:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(PAUSE_S)

    async def _run(self) -> None:
        while not self._stop.is_set():
            await self._one()
            self.served += 1
            await asyncio.sleep(PAUSE_S)

    async def _one(self) -> None:
        security = self._security
        async with Producer(self._bootstrap, security=security) as producer:
            value = b"%d" % self.served
            written = await producer.send(self._topic, value, partition=0)
        async with Consumer(bootstrap_servers=self._bootstrap, security=security) as consumer:
            tp = TopicPartition(self._topic, 0)
            consumer.assign([tp])
            consumer.seek(tp, written.offset)
            record = await consumer.getone()
            assert record.value == value
