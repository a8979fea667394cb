"""The machine over many partitions and brokers: it goes in steps, and describes all of it once."""

from __future__ import annotations

from functools import reduce

import pytest

from oncelog_controller import core, znodes
from oncelog_controller.core import STEP_PARTITIONS, TOLD_AT_ONCE
from oncelog_controller.effects import Effect, SendOrders
from oncelog_controller.events import (
    BrokerSuspected,
    ClusterLoaded,
    Event,
    GoOn,
    TimeReached,
)
from oncelog_controller.machine import ControllerMachine, EventOutOfTurnError
from oncelog_controller.orders import Orders
from oncelog_protocol.types import TopicPartition
from support.controller_driver import Driver
from support.room_settings import controller_settings


def large(brokers: int, partitions: int) -> Driver:
    """Return a driver whose store has one topic of that many partitions."""
    driver = Driver.started(*range(1, brokers + 1))
    replicas = [[1 + (n + k) % brokers for k in range(3)] for n in range(partitions)]
    driver.create("t", *replicas)
    return driver


def in_steps(driver: Driver, machine: ControllerMachine, event: Event) -> list[list[Effect]]:
    """Return what each step of an event orders."""
    steps = [machine.handle(event, driver.now)]
    while machine.unfinished:
        steps.append(machine.handle(GoOn(), driver.now))
    return steps


def test_between_two_steps_nothing_else_happens() -> None:
    driver = large(3, 3 * STEP_PARTITIONS)
    machine = ControllerMachine(1, controller_settings())
    machine.handle(ClusterLoaded(driver.read_cluster()), driver.now)
    assert machine.unfinished
    with pytest.raises(EventOutOfTurnError):
        machine.handle(TimeReached(), driver.now)


def test_a_large_cluster_is_loaded_in_steps() -> None:
    driver = large(3, 3 * STEP_PARTITIONS)
    machine = ControllerMachine(1, controller_settings())
    steps = in_steps(driver, machine, ClusterLoaded(driver.read_cluster()))
    assert len(steps) > 4
    told = [e.broker_id for effects in steps for e in effects if isinstance(e, SendOrders)]
    assert told == [1, 2, 3]
    assert machine.cluster.partition("t", 3 * STEP_PARTITIONS - 1) is not None


@pytest.mark.slow
def test_a_suspicion_that_concerns_many_partitions_goes_in_steps() -> None:
    driver = large(3, 3 * STEP_PARTITIONS)
    led = [n for n in range(3 * STEP_PARTITIONS) if driver.state("t", n).leader == 2]
    suspected = BrokerSuspected(2, driver.brokers[2].broker_epoch)
    assert len(in_steps(driver, driver.machine, suspected)) > 2
    driver = large(3, 3 * STEP_PARTITIONS)
    driver.suspect(2)
    assert led
    assert all(driver.state("t", n).leader in (1, 3) for n in led)


def test_many_brokers_are_told_some_an_event_from_one_description() -> None:
    brokers = 2 * TOLD_AT_ONCE + 1
    driver = large(brokers, 30)
    machine = ControllerMachine(1, controller_settings())
    told: list[list[SendOrders]] = []
    event: Event = ClusterLoaded(driver.read_cluster())
    while True:
        effects = [e for step in in_steps(driver, machine, event) for e in step]
        told.append([e for e in effects if isinstance(e, SendOrders)])
        if machine.wake_at is None or machine.wake_at > driver.now:
            break
        event = TimeReached()
    assert [len(each) for each in told] == [TOLD_AT_ONCE, TOLD_AT_ONCE, 1]
    orders = [e.orders for each in told for e in each]
    assert len({id(each.whole) for each in orders}) == 1
    assert all(each.replicas_full and each.metadata_full for each in orders)
    assert sum(len(each.replicas or {}) for each in orders) == 3 * 30


def test_what_changes_while_brokers_are_told_is_in_what_the_others_are_told() -> None:
    brokers = TOLD_AT_ONCE + 1
    driver = large(brokers, 30)
    heir = Driver(broker_id=1, epoch=2, zxid=driver.zxid)
    heir.nodes, heir.brokers, heir.claims = driver.nodes, driver.brokers, driver.claims
    heir.nodes[znodes.CONTROLLER_EPOCH].version = 2
    heir.load()
    leader = heir.state("t", 0).leader
    heir.suspect(leader)
    heir.pass_time(0)
    for told_id in range(1, brokers + 1):
        told = reduce(Orders.merged_with, [o for b, _, o in heir.orders if b == told_id])
        assert told.metadata is not None
        assert len(told.metadata) == 30
        assert told.metadata[TopicPartition("t", 0)].leader == heir.state("t", 0).leader != leader


def test_what_changes_is_described_once_for_all_brokers() -> None:
    driver = large(5, 30)
    driver.orders.clear()
    driver.suspect(3)
    told = [o for broker_id, _, o in driver.orders if o.metadata]
    assert len(told) == 5
    assert len({id(orders.whole) for orders in told}) == 1
    assert len({id(orders.live_brokers) for orders in told}) == 1


def test_a_large_cluster_is_described_in_an_event_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core, "LOOKED_AT_ONCE", 10)
    driver = large(3, 30)
    machine = ControllerMachine(1, controller_settings())
    loaded = [
        e for step in in_steps(driver, machine, ClusterLoaded(driver.read_cluster())) for e in step
    ]
    assert not [e for e in loaded if isinstance(e, SendOrders)]
    assert machine.wake_at is not None
    assert machine.wake_at <= driver.now
    steps = in_steps(driver, machine, TimeReached())
    assert len(steps) > 2
    told = [e.orders for step in steps for e in step if isinstance(e, SendOrders)]
    assert [len(orders.metadata or {}) for orders in told] == [30, 30, 30]
