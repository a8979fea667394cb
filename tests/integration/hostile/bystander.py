"""A client that does nothing wrong goes on beside an attack: it is the canary of every row.

It writes a record and reads it again, on one connection, over and over. It retries nothing: an
error, an answer that does not come, or another record than its own ends it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Self

from oncelog.security import Security
from oncelog_protocol.connection import ClientConnection
from oncelog_runtime.channel import RequestChannel
from support.hand_records import fetch_values, produce

__all__ = ["TOPIC", "USER", "Bystander"]

USER = TOPIC = "canary"
"""Its name is its password too."""

ANSWER_S = 5.0
"""Every record is there again within so long."""
PAUSE_S = 0.002


class Bystander:
    """It authenticates before the attack begins."""

    def __init__(self, address: tuple[str, int], ca_file: str) -> None:
        self._address = address
        self._ca_file = ca_file
        self._task: asyncio.Task[None] | None = None
        self._laps_s: list[float] = []
        """So long each record took from its writing to its reading."""
        self._told = 0
        """So many of them were told."""

    def laps_ms(self) -> str:
        """Return how long each record took since the last call, in milliseconds, as JSON."""
        new = self._laps_s[self._told :]
        self._told = len(self._laps_s)
        return json.dumps([round(lap_s * 1000, 2) for lap_s in new])

    async def __aenter__(self) -> Self:
        security = Security(ca_file=self._ca_file, username=USER, password=USER)
        machine = ClientConnection(USER)
        channel = await security.dialer().open(*self._address, machine, connect_timeout_s=ANSWER_S)
        self._task = asyncio.create_task(self._work(channel))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self, channel: RequestChannel) -> None:
        loop = asyncio.get_running_loop()
        try:
            for number in itertools.count():
                begun = loop.time()
                async with asyncio.timeout(ANSWER_S):
                    await self._lap(channel, b"%d" % number)
                self._laps_s.append(loop.time() - begun)
                await asyncio.sleep(PAUSE_S)
        finally:
            channel.close()
            await channel.wait_closed()

    async def _lap(self, channel: RequestChannel, value: bytes) -> None:
        answer = await produce(channel, TOPIC, 0, [value])
        assert answer.error_code == 0, answer
        assert await fetch_values(channel, TOPIC, 0, answer.base_offset) == [value]

    async def goes_on(self, laps: int = 1) -> None:
        """Wait until it has written and read so many more records from now on.

        :raises AssertionError: it has ended.
        """
        wanted = len(self._laps_s) + 1 + laps  # the record that is under way does not count
        while len(self._laps_s) < wanted:
            assert self._task is not None
            if self._task.done():
                raise AssertionError(
                    "the attack has harmed a bystander"
                ) from self._task.exception()
            await asyncio.sleep(0.001)
