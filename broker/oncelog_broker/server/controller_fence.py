"""The fence decides which orders of controllers this broker still obeys.

* [Z4]: an order with a controller epoch below the highest one seen is refused with
  STALE_CONTROLLER_EPOCH.
* A higher one is believed only when the metadata store names that controller: one order that was
  forged, or garbled, would make this broker deaf to all that follow. That is one read an election.
  Until the store has said so, the order is refused with NOT_CONTROLLER, and sent again.
* A broker that has not registered yet cannot tell an order for its earlier life from one for this
  one: it refuses all with BROKER_NOT_AVAILABLE, which controllers send again.
* [K21] (KIP-380): an order meant for an earlier life of this broker, that is with a lower broker
  epoch than ours, is refused with STALE_BROKER_EPOCH; a higher one is obeyed, because the
  controller may learn of a new registration before this broker does (KAFKA-9839).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_protocol.errors import (
    BrokerNotAvailableError,
    NotControllerError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
)
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

Elected: TypeAlias = Callable[[], Awaitable[tuple[int, int]]]
"""It returns who is controller by the store, -1 for nobody, and the newest controller epoch.

:raises BrokerNotAvailableError: the store does not answer.
"""


class ControllerFence:
    """It knows the highest controller epoch seen, and the epoch of our registration (-1: none
    yet)."""

    def __init__(self, elected: Elected, safeguards: Safeguards = SAFE) -> None:
        self._elected = elected
        self._safeguards = safeguards
        self._reading = asyncio.Lock()
        self.controller_epoch = -1
        self.broker_epoch = -1

    def registered(self, broker_epoch: int) -> None:
        """Begin another life of this broker: orders for an earlier one are refused from now on."""
        self.broker_epoch = broker_epoch

    async def admit(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Check as ``check`` does, and ask the store about a controller that is not known yet.

        :raises NotControllerError: the store knows nothing of that controller.
        :raises BrokerNotAvailableError: also: the store does not answer.
        """
        if controller_epoch > self.controller_epoch:
            self._check_life(broker_epoch)
            async with self._reading:
                if controller_epoch > self.controller_epoch:
                    await self._learn(controller_id, controller_epoch)
        self.check(controller_id, controller_epoch, broker_epoch)

    async def _learn(self, controller_id: int, controller_epoch: int) -> None:
        found_id, found_epoch = await self._elected()
        named = (found_id, found_epoch) == (controller_id, controller_epoch)
        if found_epoch > controller_epoch:
            self._take(found_id, found_epoch)
        elif self._safeguards.disbelieves(named):
            logger.warning(
                "controller_disbelieved",
                controller_id=controller_id,
                controller_epoch=controller_epoch,
                elected_id=found_id,
                elected_epoch=found_epoch,
            )
            raise NotControllerError(
                f"broker {controller_id} is not controller of epoch {controller_epoch}"
            )

    def check(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Remember the order's controller epoch, or refuse the order.

        :raises BrokerNotAvailableError: this broker has not registered yet.
        :raises StaleControllerEpochError: a newer controller has spoken.
        :raises StaleBrokerEpochError: the order is for an earlier life of this broker.
        """
        self._check_life(None)
        if controller_epoch < self.controller_epoch:
            raise StaleControllerEpochError(
                f"controller epoch {controller_epoch}, seen {self.controller_epoch}"
            )
        self._check_life(broker_epoch)
        if controller_epoch > self.controller_epoch:
            self._take(controller_id, controller_epoch)

    def _check_life(self, broker_epoch: int | None) -> None:
        is_of_earlier_life = self._safeguards.is_of_earlier_life
        if is_of_earlier_life(self.broker_epoch < 0):
            raise BrokerNotAvailableError("the broker has not registered yet")
        if broker_epoch is not None and is_of_earlier_life(broker_epoch < self.broker_epoch):
            raise StaleBrokerEpochError(f"broker epoch {broker_epoch}, ours {self.broker_epoch}")

    def _take(self, controller_id: int, controller_epoch: int) -> None:
        logger.info(
            "controller_changed",
            controller=controller_id,
            controller_epoch=controller_epoch,
            before=self.controller_epoch,
        )
        self.controller_epoch = controller_epoch
