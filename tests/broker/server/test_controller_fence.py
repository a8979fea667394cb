"""Orders of deposed controllers, and orders for an earlier life of this broker, are refused."""

from __future__ import annotations

import pytest

from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_protocol.errors import (
    BrokerNotAvailableError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
)


def test_controller_epochs_only_grow() -> None:
    fence = ControllerFence()
    fence.broker_epoch = 0
    fence.check(1, 5, 0)
    fence.check(1, 5, 0)
    fence.check(2, 7, 0)
    with pytest.raises(StaleControllerEpochError):
        fence.check(1, 6, 0)
    assert fence.controller_epoch == 7


def test_an_order_for_an_earlier_life_is_refused_a_later_one_obeyed() -> None:
    """KIP-380 and KAFKA-9839."""
    fence = ControllerFence()
    fence.broker_epoch = 100
    fence.check(1, 1, 100)
    fence.check(1, 1, 101)
    with pytest.raises(StaleBrokerEpochError):
        fence.check(1, 2, 99)
    assert fence.controller_epoch == 1, "a refused order leaves nothing behind"


def test_before_it_has_registered_a_broker_obeys_nobody() -> None:
    """The order may be for its earlier life, whose leaderships it must not take up again."""
    fence = ControllerFence()
    with pytest.raises(BrokerNotAvailableError):
        fence.check(1, 5, 100)
    assert fence.controller_epoch == -1


def test_obeying_an_order_for_an_earlier_life_is_caught_when_broker_epochs_are_not_checked() -> (
    None
):
    """A delayed StopReplica would delete the replica that was made since."""
    fence = ControllerFence(check_broker_epoch=False)
    fence.check(1, 5, 100)
    fence.broker_epoch = 200
    fence.check(1, 5, 100)
    with pytest.raises(StaleControllerEpochError):
        fence.check(1, 4, 200)
