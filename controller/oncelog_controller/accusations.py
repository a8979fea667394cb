"""Accusations through the store: is a broker that refuses connections dead? It may object.

Rules
-----
* Who is refused by a broker without proof (see ``evidence``) leaves an ephemeral node below that
  broker's name, with the broker epoch that is meant. A broker that lives removes it: it objects.
* What is still there after ``PATIENCE_S`` was not objected to. A store that is slow to take the
  accusation is slow to bring it, too: the wait grows with it.
* A node for an earlier life is left alone: that life is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog_controller import znodes
from oncelog_controller.loader import make_node, prepare_store
from oncelog_controller.store import (
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreDisconnectedError,
    WatchEvent,
)
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

PATIENCE_S = 0.2
"""How long the accused has."""

PATIENCE_MAX_S = 2.0
"""However slow the store is."""

SLOW_STORE_FACTOR = 4
"""An objection takes a notice, three reads and a write; the accusation took one write."""


async def objects(store: MetadataStore, accuser_id: int, broker_id: int, broker_epoch: int) -> bool:
    """Return whether that life of a broker objects to being dead. Takes ``PATIENCE_S`` when it does
    not.

    :raises StoreDisconnectedError, SessionExpiredError: nobody knows.
    """
    loop = asyncio.get_running_loop()
    path = znodes.accusation_path(broker_id, accuser_id)
    data = znodes.encode_accusation(broker_epoch)
    session = store.session_id
    since = loop.time()
    try:
        await store.create(path, data, ephemeral=True, make_parents=True)
    except NodeExistsError:
        # Ours, from a question that was taken back, or whose answer was lost.
        await _remove(store, path)
        await store.create(path, data, ephemeral=True, make_parents=True)
    wait_s = min(max(PATIENCE_S, SLOW_STORE_FACTOR * (loop.time() - since)), PATIENCE_MAX_S)
    gone = asyncio.Event()
    if await store.exists(path, lambda _: gone.set()) is not None:
        try:
            async with asyncio.timeout(wait_s):
                await gone.wait()
        except TimeoutError:
            pass
    # This process may have been held up itself: what the store says now is what counts.
    removed = await _remove(store, path)
    if store.session_id != session:
        raise SessionExpiredError(path)  # it went with the session
    return not removed


async def _remove(store: MetadataStore, path: str) -> bool:
    """Remove a node, and return whether it was there."""
    try:
        await store.delete(path)
    except NoNodeError:
        return False
    return True


class Defence:
    """It objects for one broker, for as long as ``run`` runs."""

    def __init__(
        self, store: MetadataStore, broker_id: int, on_accused: Callable[[list[int]], None]
    ) -> None:
        """Make a defence; ``on_accused`` is told who accused this life, after each objection."""
        self._store = store
        self._broker_id = broker_id
        self._on_accused = on_accused
        self._wake = asyncio.Event()
        self._parents_stand = False

    async def run(self) -> None:
        """Watch, object, watch again; to be cancelled."""
        self._store.on_session.append(self._changed)
        try:
            while True:
                self._wake.clear()
                if self._store.state is SessionState.CONNECTED:
                    try:
                        await self._answer()
                    except (StoreDisconnectedError, SessionExpiredError):
                        await asyncio.sleep(0.01)  # the state may say so only later
                        continue
                await self._wake.wait()
        finally:
            if self._changed in self._store.on_session:
                self._store.on_session.remove(self._changed)

    async def _answer(self) -> None:
        path = znodes.accusations_path(self._broker_id)
        if not self._parents_stand:
            await prepare_store(self._store)
            await make_node(self._store, path)
            self._parents_stand = True
        accusers = [
            int(name)
            for name in await self._store.children(path, self._changed)
            if name.isdecimal() and await self._object(f"{path}/{name}")
        ]
        if accusers:
            logger.warning("accusation_refuted", broker_id=self._broker_id, accusers=accusers)
            self._on_accused(accusers)

    async def _object(self, path: str) -> bool:
        """Remove the accusation at ``path`` if it is of this life, and return whether it was."""
        try:
            data, _ = await self._store.get(path)
            own = await self._store.exists(znodes.broker_path(self._broker_id))
            ours = own is not None and own.ephemeral_owner == self._store.session_id
            if own is None or not ours or znodes.decode_accusation(path, data) != own.czxid:
                return False
            await self._store.delete(path)
        except (NoNodeError, znodes.CorruptNodeError):
            return False
        return True

    def _changed(self, _: WatchEvent | SessionState) -> None:
        self._wake.set()
