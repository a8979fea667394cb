"""Orders of deposed controllers, and orders for an earlier life of this broker, are refused."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_protocol.errors import (
    BrokerNotAvailableError,
    NotControllerError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
)
from support.fence import OpenFence
from unsafe.replication import without


def test_controller_epochs_only_grow() -> None:
    fence = OpenFence()
    fence.registered(0)
    fence.check(1, 5, 0)
    fence.check(1, 5, 0)
    fence.check(2, 7, 0)
    with pytest.raises(StaleControllerEpochError):
        fence.check(1, 6, 0)
    assert fence.controller_epoch == 7


def test_an_order_for_an_earlier_life_is_refused_a_later_one_obeyed() -> None:
    """It is KIP-380 and KAFKA-9839."""
    fence = OpenFence()
    fence.registered(100)
    fence.check(1, 1, 100)
    fence.check(1, 1, 101)
    with pytest.raises(StaleBrokerEpochError):
        fence.check(1, 2, 99)
    assert fence.controller_epoch == 1, "a refused order leaves nothing behind"


def test_before_it_has_registered_a_broker_obeys_nobody() -> None:
    """It may be for its earlier life, whose leaderships the broker must not take up again."""
    fence = OpenFence()
    with pytest.raises(BrokerNotAvailableError):
        fence.check(1, 5, 100)
    assert fence.controller_epoch == -1


def test_obeying_an_order_for_an_earlier_life_is_caught_when_broker_epochs_are_not_checked() -> (
    None
):
    """A delayed StopReplica would delete the replica that was made since."""
    fence = OpenFence(without("check_broker_epoch"))
    fence.check(1, 5, 100)
    fence.registered(200)
    fence.check(1, 5, 100)
    with pytest.raises(StaleControllerEpochError):
        fence.check(1, 4, 200)


class Store:
    """It says who is controller."""

    def __init__(self) -> None:
        self.controller = (1, 5)
        self.reads = 0
        self.answers = True

    async def elected(self) -> tuple[int, int]:
        self.reads += 1
        await asyncio.sleep(0)
        if not self.answers:
            raise BrokerNotAvailableError
        return self.controller


def asking(store: Store) -> ControllerFence:
    fence = ControllerFence(store.elected)
    fence.registered(100)
    return fence


async def test_a_newer_controller_is_believed_when_the_store_says_so_and_asked_about_once() -> None:
    store = Store()
    fence = asking(store)
    await asyncio.gather(*(fence.admit(1, 5, 100) for _ in range(3)))
    await fence.admit(1, 5, 100)
    assert store.reads == 1
    store.controller = (2, 6)
    await fence.admit(2, 6, 100)
    assert (fence.controller_epoch, store.reads) == (6, 2)
    with pytest.raises(StaleControllerEpochError):
        await fence.admit(1, 5, 100)
    assert store.reads == 2


@pytest.mark.hostile(38)
async def test_an_order_with_a_forged_epoch_leaves_nothing_behind() -> None:
    store = Store()
    fence = asking(store)
    await fence.admit(1, 5, 100)
    for claimed in ((1, 2**31 - 1), (3, 6), (1, 6)):
        with pytest.raises(NotControllerError):
            await fence.admit(*claimed, 100)
    assert fence.controller_epoch == 5
    await fence.admit(1, 5, 100)


@pytest.mark.hostile(38)
async def test_an_order_in_the_name_of_another_broker_is_not_believed() -> None:
    fence = asking(Store())
    with pytest.raises(NotControllerError):
        await fence.admit(3, 5, 100)
    assert fence.controller_epoch == -1


async def test_when_the_store_is_ahead_an_older_controller_is_refused_for_good() -> None:
    store = Store()
    store.controller = (-1, 7)
    fence = asking(store)
    with pytest.raises(StaleControllerEpochError):
        await fence.admit(1, 5, 100)
    assert fence.controller_epoch == 7
    with pytest.raises(NotControllerError):
        await fence.admit(1, 8, 100)


async def test_while_the_store_is_away_only_the_known_controller_is_obeyed() -> None:
    store = Store()
    fence = asking(store)
    await fence.admit(1, 5, 100)
    store.answers, store.controller = False, (2, 6)
    with pytest.raises(BrokerNotAvailableError):
        await fence.admit(2, 6, 100)
    await fence.admit(1, 5, 100)
    store.answers = True
    await fence.admit(2, 6, 100)


async def test_an_order_for_an_earlier_life_does_not_ask_the_store() -> None:
    store = Store()
    fence = asking(store)
    with pytest.raises(StaleBrokerEpochError):
        await fence.admit(1, 5, 99)
    assert store.reads == 0
