"""Replicas that failed or refused to lead are taken out of ISRs, and tried again when they may."""

from __future__ import annotations

import pytest

from oncelog_controller.events import (
    ClusterLoaded,
    StorageFailed,
    TimeReached,
)
from oncelog_controller.machine import ControllerMachine
from oncelog_controller.store import BadVersionError, StoreError
from oncelog_protocol.errors import (
    InconsistentTopicIdError,
    StorageError,
    UnsupportedVersionError,
)
from oncelog_protocol.messages import admin, replication
from oncelog_protocol.messages.replication import LeaderAndIsrRequest
from support.controller_driver import Driver, summary
from support.room_settings import controller_settings


def test_a_replica_whose_directory_failed_loses_leadership_and_isr() -> None:
    driver = Driver.started(1, 2, 3, auto_ack=False)
    driver.create("t", [1, 2, 3])
    order = next(
        r
        for b, r in driver.requests
        if b == 1 and isinstance(r, LeaderAndIsrRequest) and r.partitions
    )
    driver.handle(driver.answer(1, order, StorageError.code))
    assert summary(driver) == (2, 1, [2, 3])
    again = driver.answer(1, order, StorageError.code)
    driver.handle(again)
    assert summary(driver) == (2, 1, [2, 3])
    driver.join(1)
    epoch = driver.state("t").leader_epoch
    assert driver.alter_isr("t", 1, 2, 3).error_code == 0, "a restart clears it"
    assert driver.state("t").leader_epoch == epoch


def test_a_notice_of_a_failed_directory_makes_the_broker_tell() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.requests.clear()
    driver.handle(StorageFailed((1, 9)))
    full = [b for b, r in driver.requests if isinstance(r, LeaderAndIsrRequest) and r.full]
    assert full == [1]


def test_a_failed_replica_is_tried_again_where_nobody_leads() -> None:
    driver = Driver.started(1, 2, auto_ack=False)
    driver.create("t", [1, 2], min_insync_replicas="2")
    driver.lose(2)
    driver.handle(driver.answer(1, orders_of(driver, 1)[-1], StorageError.code))
    assert driver.state("t").leader == -1
    driver.handle(StorageFailed((1,)))
    assert driver.state("t").leader == 1, "it asked again, and may be well by now"
    driver.handle(driver.answer(1, orders_of(driver, 1)[-1], StorageError.code))
    assert driver.state("t").leader == -1, "it is not, and is not tried before it asks"


def orders_of(driver: Driver, broker_id: int) -> list[LeaderAndIsrRequest]:
    return [
        request
        for told, request in driver.requests
        if told == broker_id and isinstance(request, LeaderAndIsrRequest) and request.partitions
    ]


def test_an_order_that_a_broker_cannot_carry_out_yet_is_given_again() -> None:
    driver = Driver.started(1, auto_ack=False)
    request_id = driver.ask_later(
        admin.CreateTopicsRequest([admin.CreatableTopic("t", 1, 1)], timeout_ms=5000)
    )
    order = [r for _, r in driver.requests if isinstance(r, LeaderAndIsrRequest)][-1]
    driver.requests.clear()
    driver.handle(driver.answer(1, order, InconsistentTopicIdError.code))
    assert not driver.requests
    driver.pass_time(0.3)
    again = [r for _, r in driver.requests if isinstance(r, LeaderAndIsrRequest)]
    assert [p.topic for p in again[0].partitions] == ["t"]
    assert request_id not in driver.replies
    driver.handle(driver.answer(1, again[0]))
    assert driver.replies[request_id].topics[0].error_code == 0
    driver.requests.clear()
    driver.pass_time(0.5)
    assert not driver.requests


def test_a_request_that_is_none_of_the_controllers_is_refused() -> None:
    driver = Driver.started(1)
    response = driver.ask(replication.ControlledShutdownRequest(9, 1))
    assert response.error_code == 77
    with pytest.raises(TypeError):
        driver.ask(admin.DescribeConfigsRequest([]))
    assert UnsupportedVersionError.code == 35


def test_unexpected_results_are_ignored() -> None:
    driver = Driver.started(1)
    driver.create("t", [1])
    request = LeaderAndIsrRequest(1, 1, driver.brokers[1].broker_epoch, False, [], [])
    answer = driver.answer(1, request)
    answer.response.partitions.append(replication.ReplicaResult("x", 0, StorageError.code))
    driver.handle(answer)
    stale = driver.answer(1, LeaderAndIsrRequest(1, 1, 5, False, [], []))
    driver.handle(stale)
    assert summary(driver) == (1, 0, [1])


def test_a_store_error_is_a_store_error() -> None:
    assert issubclass(BadVersionError, StoreError)


def test_a_new_controller_looks_at_its_brokers_at_once_and_at_leaders_a_second_later() -> None:
    machine = ControllerMachine(1, controller_settings())
    driver = Driver.started(1)
    assert machine.handle(ClusterLoaded(driver.read_cluster()), 0.0)
    assert machine.wake_at == 0.0
    machine.handle(TimeReached(), 0.0)
    assert machine.wake_at == 1.0


# ---------------------------------------------------------------- replicas that refused to lead


def leader_orders(driver: Driver, broker_id: int) -> list[LeaderAndIsrRequest]:
    orders = [request for broker, request in driver.requests if broker == broker_id]
    return [o for o in orders if isinstance(o, LeaderAndIsrRequest) and o.partitions]


def test_a_replica_that_refused_to_lead_rejoins_once_it_follows_in_the_current_epoch() -> None:
    driver = Driver.started(1, 2, 3, auto_ack=False)
    driver.create("t", [1, 2, 3])
    first = leader_orders(driver, 1)[0]
    driver.handle(driver.answer(1, first, StorageError.code))
    assert list(driver.state("t").isr) == [2, 3]
    driver.handle(driver.answer(1, first))
    assert driver.alter_isr("t", 1, 2, 3).error_code != 0, "the answer was of an older epoch"
    driver.handle(driver.answer(1, leader_orders(driver, 1)[-1]))
    assert driver.alter_isr("t", 1, 2, 3).error_code == 0


def test_one_that_its_leader_has_taken_out_meanwhile_is_asked_once_more() -> None:
    """It refused because the order named it in the ISR; no new state comes of that any more."""
    driver = Driver.started(1, 2, 3, auto_ack=False)
    driver.create("t", [1, 2, 3])
    named = leader_orders(driver, 3)[-1]
    assert driver.alter_isr("t", 1, 2).error_code == 0
    before = len(leader_orders(driver, 3))
    driver.handle(driver.answer(3, named, StorageError.code))
    again = leader_orders(driver, 3)[before:]
    assert [order.partitions[0].isr for order in again] == [[1, 2]]
    driver.handle(driver.answer(3, again[0], StorageError.code))
    assert len(leader_orders(driver, 3)) == before + 1, "its directory may be gone: that is all"
    assert driver.alter_isr("t", 1, 2, 3).error_code != 0
    driver.handle(driver.answer(3, again[0]))
    assert driver.alter_isr("t", 1, 2, 3).error_code == 0


def test_the_last_member_that_refused_does_not_go_round_and_round() -> None:
    driver = Driver.started(1, 2, auto_ack=False)
    driver.create("t", [1])
    driver.handle(driver.answer(1, leader_orders(driver, 1)[0], StorageError.code))
    epoch = driver.state("t").leader_epoch
    assert driver.state("t").leader == -1
    driver.handle(driver.answer(1, leader_orders(driver, 1)[-1]))
    assert (driver.state("t").leader, driver.state("t").leader_epoch) == (-1, epoch)
