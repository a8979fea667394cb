"""A controller is elected here, in the store. Holds no state of its own.

Rules
-----
* One multi makes ``/controller`` and moves ``/controller_epoch`` by version: there cannot be two
  controllers with one epoch [Z1].
* When the multi's outcome is not clear, the store tells: if ``/controller`` belongs to this session
  and names the present epoch, this broker is controller [Z2].
* A release that does not know a feature of the cluster does not run for it (``features``).
* Deposing is one multi too: it checks ``/controller_epoch`` and removes ``/controller`` by version,
  so that it can only hit the controller that was looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from oncelog_controller import znodes
from oncelog_controller.features import check_features
from oncelog_controller.loader import make_node
from oncelog_controller.store import (
    BadVersionError,
    CheckVersion,
    Create,
    Delete,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SetData,
    StoreDisconnectedError,
    StoreError,
    Watch,
)
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_protocol.types import NO_BROKER, NO_EPOCH
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

ANSWER_S = 5.0
"""The store has this time to say who is controller; who asked on behalf of an order will ask again.
"""


@dataclass(frozen=True, slots=True)
class Won:
    """This broker is controller. ``epoch_version`` is what its writes check."""

    controller_epoch: int
    epoch_version: int


@dataclass(frozen=True, slots=True)
class Incumbent:
    """Somebody else is controller."""

    broker_id: int
    controller_epoch: int
    node_version: int
    node_czxid: int
    session_id: int


async def elected(store: MetadataStore) -> tuple[int, int]:
    """Return who is controller, -1 for nobody, and the newest controller epoch, -1 before the
    first.

    :raises StoreDisconnectedError, SessionExpiredError:
    """
    try:
        data, _ = await store.get(znodes.CONTROLLER)
        return znodes.decode_controller(data)
    except NoNodeError:
        pass
    try:
        data, _ = await store.get(znodes.CONTROLLER_EPOCH)
    except NoNodeError:
        return NO_BROKER, NO_EPOCH
    return NO_BROKER, znodes.decode_epoch(data)


def elected_in(store: MetadataStore) -> Callable[[], Awaitable[tuple[int, int]]]:
    """Return :func:`elected` for a broker, which knows nothing of stores: when the store does not
    answer it raises BrokerNotAvailableError."""

    async def ask() -> tuple[int, int]:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await elected(store)
        except (StoreError, TimeoutError) as error:
            raise BrokerNotAvailableError(f"the metadata store is silent: {error}") from error

    return ask


class Campaign:
    """A campaign is what one broker does to become controller."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id

    async def run(self, watch: Watch) -> Won | Incumbent:
        """Try until there is a controller; ``watch`` fires when ``/controller`` changes.

        :raises StoreDisconnectedError, SessionExpiredError: the outcome is open; run again when the
            session stands.
        :raises UnknownFeatureError: the cluster uses what this release does not know.
        """
        while True:
            outcome = await self._look(watch)
            if outcome is not None:
                return outcome
            won = await self._try()
            if won is not None:
                return won

    async def look(self, watch: Watch) -> Won | Incumbent | None:
        """Return who is controller, None for nobody, without running for it; ``watch`` fires when
        that changes.

        :raises StoreDisconnectedError, SessionExpiredError:
        """
        while True:
            outcome = await self._look(watch)
            if outcome is not None or await self._store.exists(znodes.CONTROLLER, watch) is None:
                return outcome

    async def _look(self, watch: Watch | None) -> Won | Incumbent | None:
        """Return who is controller, None for nobody."""
        try:
            data, stat = await self._store.get(znodes.CONTROLLER, watch)
        except NoNodeError:
            return None
        broker_id, epoch = znodes.decode_controller(data)
        if broker_id == self._broker_id and stat.ephemeral_owner == self._store.session_id:
            epoch_data, epoch_stat = await self._store.get(znodes.CONTROLLER_EPOCH)
            if znodes.decode_epoch(epoch_data) == epoch:
                return Won(epoch, epoch_stat.version)
            return None  # somebody has moved on between the two reads: look again
        return Incumbent(broker_id, epoch, stat.version, stat.czxid, stat.ephemeral_owner)

    async def _try(self) -> Won | None:
        try:
            data, stat = await self._store.get(znodes.CONTROLLER_EPOCH)
        except NoNodeError:
            await make_node(self._store, znodes.CONTROLLER_EPOCH, znodes.encode_epoch(0))
            return None
        epoch = znodes.decode_epoch(data) + 1
        await check_features(self._store)
        try:
            await self._store.multi(
                [
                    Create(
                        znodes.CONTROLLER,
                        znodes.encode_controller(self._broker_id, epoch),
                        ephemeral=True,
                    ),
                    SetData(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(epoch), stat.version),
                ]
            )
        except (NodeExistsError, BadVersionError):
            return None  # look again: it may be our own lost success
        return Won(epoch, stat.version + 1)

    async def depose(self, incumbent: Incumbent) -> bool:
        """Remove a controller whose process is known to be dead. False when it was not the one that
        was looked at any more.

        :raises StoreDisconnectedError, SessionExpiredError:
        """
        try:
            data, stat = await self._store.get(znodes.CONTROLLER_EPOCH)
            if znodes.decode_epoch(data) != incumbent.controller_epoch:
                return False
            await self._store.multi(
                [
                    CheckVersion(znodes.CONTROLLER_EPOCH, stat.version),
                    Delete(znodes.CONTROLLER, incumbent.node_version),
                ]
            )
        except (NoNodeError, BadVersionError):
            return False
        logger.warning(
            "controller_deposed",
            controller=incumbent.broker_id,
            controller_epoch=incumbent.controller_epoch,
        )
        return True

    async def step_down(self, won: Won) -> None:
        """Remove our own ``/controller``, so that the next one need not wait for our session."""
        try:
            await self._store.multi(
                [
                    CheckVersion(znodes.CONTROLLER_EPOCH, won.epoch_version),
                    Delete(znodes.CONTROLLER),
                ]
            )
        except StoreDisconnectedError:
            logger.info("resignation_unseen")
        except StoreError as error:
            logger.debug("resignation_needless", error=error)
