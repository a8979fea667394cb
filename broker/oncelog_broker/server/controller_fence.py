"""Which orders of controllers this broker still obeys. Pure.

* Z4: an order with a controller epoch below the highest one seen is refused with
  STALE_CONTROLLER_EPOCH.
* A broker that has not registered yet cannot tell an order for its earlier life from one for this
  one: it refuses all with BROKER_NOT_AVAILABLE, which controllers send again.
* K21 (KIP-380): an order meant for an earlier life of this broker, that is with a lower broker
  epoch than ours, is refused with STALE_BROKER_EPOCH; a higher one is obeyed, because the
  controller may learn of a new registration before this broker does (KAFKA-9839)."""

from __future__ import annotations

from oncelog_broker.server import logged
from oncelog_protocol.errors import (
    BrokerNotAvailableError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
)

logger = logged.get_logger(__name__)


class ControllerFence:
    """The highest controller epoch seen, and the epoch of our registration (-1: none yet)."""

    def __init__(self, *, check_broker_epoch: bool = True) -> None:
        """``check_broker_epoch`` is the safeguard of that name."""
        self._check_broker_epoch = check_broker_epoch
        self.controller_epoch = -1
        self.broker_epoch = -1

    def check(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Remember the order's controller epoch, or refuse the order.

        :raises BrokerNotAvailableError: this broker has not registered yet.
        :raises StaleControllerEpochError: a newer controller has spoken.
        :raises StaleBrokerEpochError: the order is for an earlier life of this broker.
        """
        if self.broker_epoch < 0 and self._check_broker_epoch:
            raise BrokerNotAvailableError("the broker has not registered yet")
        if controller_epoch < self.controller_epoch:
            raise StaleControllerEpochError(
                f"controller epoch {controller_epoch}, seen {self.controller_epoch}"
            )
        if broker_epoch < self.broker_epoch and self._check_broker_epoch:
            raise StaleBrokerEpochError(f"broker epoch {broker_epoch}, ours {self.broker_epoch}")
        if controller_epoch > self.controller_epoch:
            logger.info(
                logged.CONTROLLER_CHANGED, controller_id, controller_epoch, self.controller_epoch
            )
            self.controller_epoch = controller_epoch
