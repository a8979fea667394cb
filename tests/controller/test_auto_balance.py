"""The controller has replicas moved that nobody has asked it to move, as the settings say."""

from __future__ import annotations

from typing import Any

from oncelog_controller.move_nodes import Priority
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.messages import admin, moves
from oncelog_protocol.messages.broker_states import DECOMMISSIONING, AlterBrokerStatesRequest
from support.controller_driver import Driver
from support.room_settings import controller_settings

SETTLE_S = 60


def started(*broker_ids: int, mode: str = "on_join", **settings: Any) -> Driver:
    config = controller_settings(
        **{
            "balance_mode": mode,
            "balance_settle_ms": SETTLE_S * 1000,
            "balance_interval_ms": 100_000,
            **settings,
        }
    )
    return Driver.started(*broker_ids, config=config)


def counts(driver: Driver) -> dict[int, int]:
    """Return how many replicas brokers have when nothing moves any more; it comes to that."""
    found: dict[int, int] = {}
    for partition in list(driver.machine.cluster.partitions()):
        while partition.placement.origin:
            there = [b for b in partition.replicas if b in driver.brokers]
            name, index = partition.topic_partition
            driver.alter_isr(name, *there, partition=index)
    driver.pass_time(2)
    if driver.machine._plans.heads:
        return counts(driver)
    for partition in driver.machine.cluster.partitions():
        for broker_id in partition.replicas:
            found[broker_id] = found.get(broker_id, 0) + 1
    return found


def test_a_broker_that_was_added_is_used_when_it_has_settled() -> None:
    driver = started(1, 2)
    driver.create("t", *[[1, 2]] * 6)
    driver.pass_time(1000)
    assert counts(driver) == {1: 6, 2: 6}
    driver.join(3)
    driver.pass_time(SETTLE_S - 1)
    assert driver.machine._plans.heads == []
    driver.pass_time(2)
    (head,) = driver.machine._plans.heads
    assert (head.priority, head.by, head.reason) == (Priority.BALANCE, "", "a broker was added")
    assert counts(driver) == {1: 4, 2: 4, 3: 4}


def test_off_moves_only_what_has_to_leave() -> None:
    driver = started(1, 2, mode="off", balance_dead_after_ms=1)
    driver.create("t", *[[1, 2]] * 6)
    driver.join(3)
    driver.pass_time(1000)
    assert counts(driver) == {1: 6, 2: 6}
    driver.ask_later(AlterBrokerStatesRequest(2, DECOMMISSIONING))
    driver.pass_time(1)
    assert counts(driver) == {1: 6, 3: 6}


def test_a_mode_may_be_set_while_the_controller_runs() -> None:
    driver = started(1, 2, mode="off")
    driver.create("t", *[[1, 2]] * 6)
    driver.join(3)
    driver.pass_time(1000)
    driver.machine._core.use_config(controller_settings(balance_mode="on_join"))
    driver.pass_time(1)
    assert counts(driver) == {1: 4, 2: 4, 3: 4}


def test_no_plan_is_made_while_another_is_under_way() -> None:
    driver = started(1, 2)
    driver.create("t", *[[1, 2]] * 6)
    driver.join(3)
    wish = moves.ReassignedPartition("t", 0, [1, 3])
    driver.ask(moves.AlterPartitionReassignmentsRequest([wish]))
    driver.pass_time(SETTLE_S + 100)
    assert len(driver.machine._plans.heads) == 1
    assert counts(driver) == {1: 6, 2: 5, 3: 1}
    driver.pass_time(11)
    assert counts(driver) == {1: 4, 2: 4, 3: 4}


def test_continuous_acts_when_brokers_were_not_alike_twice() -> None:
    driver = started(1, 2, 3, mode="continuous")
    driver.pass_time(SETTLE_S)
    driver.create("t", *[[1, 2]] * 6)
    driver.pass_time(100)
    assert driver.machine._plans.heads == [], "it may have been by chance"
    driver.pass_time(100)
    assert [head.reason for head in driver.machine._plans.heads] == ["brokers are not alike"]
    assert counts(driver) == {1: 4, 2: 4, 3: 4}


def test_a_broker_that_is_dead_is_replaced_if_that_is_wanted() -> None:
    for dead_after_s in (0, 500):
        driver = started(1, 2, 3, balance_dead_after_ms=dead_after_s * 1000)
        driver.create("t", *[[1, 2], [2, 3], [3, 1]])
        driver.pass_time(0)
        driver.lose(3)
        driver.pass_time(499)
        assert driver.machine._plans.heads == []
        driver.pass_time(2)
        after = {1: 3, 2: 3} if dead_after_s else {1: 2, 2: 2, 3: 2}
        assert counts(driver) == after


def test_own_topics_grow_to_their_factor_when_there_are_brokers() -> None:
    driver = started(1, 2)
    driver.pass_time(SETTLE_S)
    new = admin.CreatableTopic(GROUP_TOPIC, -1, -1, [[1], [2], [1]])
    driver.ask(admin.CreateTopicsRequest([new], 1000), internal=True)
    driver.create("t", [1, 2])
    driver.join(3)
    driver.pass_time(SETTLE_S - 1)
    assert driver.machine._plans.heads == []
    driver.pass_time(2)
    (head,) = driver.machine._plans.heads
    assert (head.priority, head.reason) == (Priority.REPAIR, "replicas are missing")
    assert counts(driver) == {1: 4, 2: 4, 3: 3}
    assert {len(p.replicas) for p in driver.machine.cluster.topics[GROUP_TOPIC].partitions} == {3}


def test_brokers_that_leave_do_not_count_for_own_topics() -> None:
    driver = started(1, 2, 3)
    new = admin.CreatableTopic(GROUP_TOPIC, -1, -1, [[1], [2]])
    driver.ask(admin.CreateTopicsRequest([new], 1000), internal=True)
    driver.ask_later(AlterBrokerStatesRequest(3, DECOMMISSIONING))
    driver.pass_time(1000)
    assert counts(driver) == {1: 1, 2: 1}
