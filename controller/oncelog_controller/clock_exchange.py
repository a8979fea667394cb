"""Brokers tell each other through the store what their wall clocks say.

Every broker writes its time into an ephemeral node of its own now and then, and reads those of the
others. Nodes of brokers that are gone go with their sessions, so what is read is at most one round
and one session time-out old; that is near enough to notice a clock that is hours off. No message
between brokers carries the time, and of records the times are those of clients.
"""

from __future__ import annotations

from oncelog_controller import znodes
from oncelog_controller.store import (
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    StoreError,
)
from oncelog_runtime.clock import WallClock
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)


class ClockExchange:
    """It is one broker's part in the exchange.

    :param wall: its wall clock, as it is.
    """

    def __init__(self, store: MetadataStore, broker_id: int, wall: WallClock) -> None:
        self._store = store
        self._name = str(broker_id)
        self._path = znodes.clock_path(broker_id)
        self._wall = wall

    async def tell(self) -> None:
        """Say what time it is here. The broker is registered: the id is its own."""
        try:
            await self._tell()
        except StoreError as error:
            logger.debug("clock_not_told", error=error)

    async def _tell(self) -> None:
        try:
            stat = await self._store.set(self._path, znodes.encode_clock(self._wall.now_ms()))
            if stat.ephemeral_owner == self._store.session_id:
                return
            await self._store.delete(self._path)  # an earlier life's: it would go with that session
        except NoNodeError:
            pass
        try:
            now = znodes.encode_clock(self._wall.now_ms())
            await self._store.create(self._path, now, ephemeral=True, make_parents=True)
        except NodeExistsError:
            pass  # a reply was lost

    async def peers(self) -> list[int] | None:
        """Return what the clocks of the other brokers that are there said last, in milliseconds
        since 1970; None without an answer of the store."""
        found = []
        try:
            for name in await self._store.children(znodes.CLOCKS):
                if name == self._name:
                    continue
                try:
                    data, _ = await self._store.get(f"{znodes.CLOCKS}/{name}")
                    found.append(znodes.decode_clock(name, data))
                except NoNodeError:
                    continue
                except znodes.CorruptNodeError as error:
                    logger.warning("clock_not_read", peer=name, error=error)
        except NoNodeError:
            return []
        except StoreError as error:
            logger.debug("clock_not_told", error=error)
            return None
        return found
