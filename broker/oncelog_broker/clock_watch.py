"""The clock of a broker is held against those of its peers: now and then, and soon after a leap."""

from __future__ import annotations

import asyncio
from typing import Protocol

from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_runtime.checked_clock import CheckedClock
from oncelog_runtime.pause import Pause
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

ROUND_MS_MIN = 1_000
"""It is the least time between two rounds, and the time while the clock is in doubt."""

PARTITIONS_PER_TURN = 1_000
"""The replicas of so many partitions are counted between two turns of the loop."""


class Peers(Protocol):
    """The clocks of other brokers can be read here; see ``ClockExchange``."""

    async def tell(self) -> None:
        """Say what time it is here."""
        ...

    async def peers(self) -> list[int] | None:
        """Return what the others said last, in milliseconds since 1970; None if nobody knows."""
        ...


class ClockWatch:
    """It watches the clock of one broker.

    :param interval_ms: between two rounds.
    """

    def __init__(
        self,
        clock: CheckedClock,
        peers: Peers,
        image: MetadataImage,
        *,
        broker_id: int,
        interval_ms: int,
    ) -> None:
        self._clock = clock
        self._peers = peers
        self._image = image
        self._broker_id = broker_id
        self._interval_s = max(interval_ms, ROUND_MS_MIN) / 1000
        self._pause = Pause()

    async def look(self) -> None:
        """Hear what peers say before this broker belongs to them, so that logs are loaded in the
        right year. If nobody is found, that decides nothing."""
        found = await self._peers.peers()
        if found:
            self._clock.heard(found, len(found) + 1)

    async def run(self) -> None:
        """Go on until cancelled; the broker is registered."""
        while True:
            await self.round()
            settled = self._clock.is_settled
            await self._pause.sleep(self._interval_s if settled else ROUND_MS_MIN / 1000)

    def leapt(self, ahead_ms: int) -> None:
        """Log a leap of the wall clock, and ask the peers soon. The clock is to report its leaps
        here: see ``on_leap`` of ``CheckedClock``.

        :param ahead_ms: how far the wall clock is ahead of the checked time.
        """
        logger.warning("clock_leapt", broker_id=self._broker_id, ahead_s=round(ahead_ms / 1000))
        self.hurry()

    def hurry(self) -> None:
        """Begin the next round soon: what was told may have gone with a session."""
        self._pause.end()

    async def round(self) -> None:
        """Tell the time here, and hear that of the others."""
        await self._peers.tell()
        found = await self._peers.peers()
        if found is not None and self._image.updated:
            self._clock.heard(found, await self._expected())

    async def _expected(self) -> int:
        """Return how many brokers there are, up or down: those that live and those that have
        replicas."""
        known = {self._broker_id, *self._image.brokers}
        counted = 0
        for topic in list(self._image.topics.values()):
            for state in list(topic.partitions.values()):
                known.update(state.replicas)
            counted += len(topic.partitions)
            if counted >= PARTITIONS_PER_TURN:
                counted = 0
                await asyncio.sleep(0)
        return len(known)
