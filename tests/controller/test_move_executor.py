"""Moves are begun as there is room, those that are held up give their places away, none is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_broker.controller_settings import ControllerSettings
from oncelog_controller import move_nodes, order_sizes
from oncelog_controller.core import STEP_PARTITIONS
from oncelog_controller.move_executor import RETRY_S
from oncelog_controller.move_nodes import MoveWish, PlanHead, Priority
from oncelog_protocol.errors import NO_ERROR, IneligibleReplicaError, PolicyViolationError
from oncelog_protocol.messages import admin
from oncelog_protocol.messages import moves as wire
from oncelog_protocol.messages.broker_reports import BrokerReportRequest, ReportedTopic
from oncelog_protocol.messages.broker_states import DECOMMISSIONING, AlterBrokerStatesRequest
from oncelog_protocol.messages.metadata import ACTIVE
from support.controller_driver import Driver, Node
from support.room_settings import TOLD_NOTHING, controller_settings

STALL_S = 20


def started(partitions: int, *replicas: int, brokers: int = 4, **settings: Any) -> Driver:
    config = controller_settings(move_stall_timeout_ms=STALL_S * 1000, **settings)
    driver = Driver.started(*range(1, brokers + 1), config=config)
    driver.create("t", *([list(replicas)] * partitions))
    return driver


def ask(driver: Driver, wishes: dict[int, Sequence[int] | None]) -> list[int]:
    items = [
        wire.ReassignedPartition("t", index, None if target is None else [*target])
        for index, target in wishes.items()
    ]
    response = driver.ask(wire.AlterPartitionReassignmentsRequest(items))
    return [item.error_code for item in response.items]


def listed(driver: Driver) -> dict[int, tuple[str, str]]:
    """Return (phase, reason) by partition."""
    response = driver.ask(wire.ListPartitionReassignmentsRequest())
    return {move.partition: (move.phase, move.reason) for move in response.partitions}


def moving(driver: Driver) -> list[int]:
    """Return the partitions whose move has begun."""
    partitions = driver.machine.cluster.topics["t"].partitions
    return [partition.index for partition in partitions if partition.placement.origin]


def finish(driver: Driver, index: int) -> None:
    partition = driver.partition("t", index)
    driver.alter_isr("t", *partition.replicas, partition=index)


def test_few_replicas_are_added_on_one_broker_at_a_time() -> None:
    driver = started(4, 1)
    assert ask(driver, {0: [2], 1: [2], 2: [2], 3: [3]}) == [NO_ERROR] * 4
    assert moving(driver) == [0, 1, 3]
    assert listed(driver)[2] == (wire.QUEUED, "waits for its turn")
    finish(driver, 1)
    assert moving(driver) == [0, 2, 3]


def test_few_replicas_are_added_in_all() -> None:
    driver = started(4, 1, move_concurrent_max=2)
    ask(driver, {0: [2], 1: [3], 2: [4], 3: [2]})
    assert moving(driver) == [0, 1]
    finish(driver, 0)
    assert moving(driver) == [1, 2]
    assert moving(driver.take_over()) == [1, 2]


def test_a_move_that_needs_more_room_than_there_is_goes_alone() -> None:
    driver = started(2, 1, 2, brokers=4, move_concurrent_max=1)
    ask(driver, {0: [3, 4], 1: [1, 3]})
    assert moving(driver) == [0]
    finish(driver, 0)
    assert moving(driver) == [1]


def test_what_moves_no_data_needs_no_room() -> None:
    driver = started(4, 1, 2, move_concurrent_max=1)
    ask(driver, {0: [1, 3], 1: [1, 3], 2: [2, 1], 3: [2, 1]})
    assert moving(driver) == [0]
    assert [driver.partition("t", index).replicas for index in (2, 3)] == [(2, 1), (2, 1)]


def test_the_smallest_goes_first_and_a_wish_of_higher_priority_before_it() -> None:
    driver = started(3, 1, move_concurrent_per_broker=1)
    topic_id = driver.partition("t").topic.topic_id
    epoch = driver.brokers[1].broker_epoch
    sizes = ReportedTopic(topic_id, [0, 1, 2], [300, 100, 200], [0] * 3, [0] * 3, [0] * 3)
    for number, (plan_id, priority, indexes) in enumerate(
        [("1-1", Priority.BALANCE, [0, 1, 2]), ("1-2", Priority.EVACUATE, [0])]
    ):
        wishes = [MoveWish("t", topic_id, index, (2 + number,)) for index in indexes]
        head = PlanHead(plan_id, "", "", 0, priority=priority)
        data = move_nodes.encode_plan(head, wishes)
        driver.nodes[move_nodes.plan_path(plan_id)] = Node(data, 0, 1)
    driver.lose(2, 3)
    heir = driver.take_over()
    report = BrokerReportRequest(1, epoch, 0, -1, True, [], [sizes])
    assert heir.ask(report, internal=True).error_code == NO_ERROR
    assert moving(heir) == []
    assert listed(heir)[0] == (wire.QUEUED, "broker 3 is not registered")
    heir.join(2, 3)
    assert moving(heir) == [0, 1]
    assert heir.partition("t", 0).placement.target == (3,)
    finish(heir, 1)
    assert moving(heir) == [0, 2]


def test_a_move_that_is_held_up_gives_its_place_to_others_and_gets_it_back() -> None:
    driver = started(3, 1, move_concurrent_max=1, brokers=3)
    ask(driver, {0: [2], 1: [3], 2: [3]})
    assert moving(driver) == [0]
    driver.lose(2)
    driver.pass_time(STALL_S - 2)
    assert listed(driver)[0] == (wire.COPYING, "broker 2 is not registered")
    assert moving(driver) == [0]
    driver.pass_time(4)
    assert listed(driver)[0] == (wire.STALLED, "broker 2 is not registered")
    assert moving(driver) == [0, 1]
    driver.join(2)
    assert listed(driver)[0] == (wire.COPYING, "")
    finish(driver, 1)
    assert moving(driver) == [0], "there is room for one"
    finish(driver, 0)
    assert moving(driver) == [2]


def test_a_copy_that_goes_on_is_not_held_up() -> None:
    driver = started(2, 1, move_concurrent_max=1)
    ask(driver, {0: [2], 1: [3]})
    driver.pass_time(10 * STALL_S)
    assert listed(driver)[0] == (wire.COPYING, "")
    assert moving(driver) == [0]


def test_what_the_end_of_a_move_waits_for_is_told() -> None:
    driver = started(1, 1, 2, 3)
    driver.alter_isr("t", 1, 2)
    item = wire.ReassignedPartition("t", 0, [3, 4])
    driver.ask(wire.AlterPartitionReassignmentsRequest([item], True))
    driver.alter_isr("t", 1, 2, 4)
    assert listed(driver)[0] == (wire.IN_SYNC, "of those that stay are not in sync: 3")
    assert ask(driver, {0: None}) == [NO_ERROR]
    told = "brokers 3 lack records that only added replicas have"
    assert listed(driver)[0] == (wire.TURNING_BACK, told)


def test_a_broker_that_does_not_answer_is_named() -> None:
    driver = started(1, 1)
    ask(driver, {0: [2]})
    driver.suspect(2)
    assert listed(driver)[0] == (wire.COPYING, "broker 2 does not answer")


def test_a_broker_that_is_decommissioned_gets_no_replica_until_it_is_active_again() -> None:
    driver = started(3, 1)
    assert ask(driver, dict.fromkeys(range(3), (2,))) == [NO_ERROR] * 3
    driver.ask_later(AlterBrokerStatesRequest(2, DECOMMISSIONING))
    driver.pass_time(0)
    driver.create("u", [1])
    item = wire.ReassignedPartition("u", 0, [2])
    (refused,) = driver.ask(wire.AlterPartitionReassignmentsRequest([item])).items
    assert refused.error_code == IneligibleReplicaError.code
    assert refused.error_message == (
        "u-0 cannot move to 2, which is being decommissioned: make it active again, or name another"
        " broker"
    )
    wanted = [each.wish for each in driver.machine._plans.wanted.values()]
    assert [wish.partition for wish in wanted if 2 in wish.target] == [2], "planned anew"
    for index in range(2):
        finish(driver, index)
    assert not any(2 in driver.partition("t", index).replicas for index in range(3))
    assert listed(driver)[2] == (wire.QUEUED, "broker 2 is decommissioning")
    assert driver.ask(AlterBrokerStatesRequest(2, ACTIVE)).error_code == NO_ERROR
    assert moving(driver) == [2]


def test_a_partition_without_a_leader_moves_when_it_has_one() -> None:
    driver = started(1, 2)
    driver.lose(2)
    ask(driver, {0: [3]})
    assert moving(driver) == []
    assert listed(driver)[0] == (wire.QUEUED, "it has no leader")
    driver.join(2)
    assert moving(driver) == [0]


def test_more_may_be_begun_when_the_setting_says_so() -> None:
    driver = Driver.started(1, 2, settings=ControllerSettings(TOLD_NOTHING))
    driver.create("t", *([[1]] * 4))
    ask(driver, dict.fromkeys(range(4), (2,)))
    assert moving(driver) == [0, 1]
    entry = admin.ConfigEntry("move_concurrent_per_broker", "3")
    change = admin.ConfigAlteration(admin.RESOURCE_BROKER, "", [entry])
    assert driver.ask(admin.AlterConfigsRequest([change])).resources[0].error_code == NO_ERROR
    assert moving(driver) == [0, 1, 2]


def test_a_broker_gets_no_more_than_one_order_can_list(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = started(2, 1)
    size = order_sizes.entry_bytes("t", 2, 2)
    monkeypatch.setattr(order_sizes, "ORDER_BYTES_MAX", size)
    assert ask(driver, {0: [2], 1: [2]}) == [NO_ERROR, PolicyViolationError.code]
    assert moving(driver) == [0]
    assert ask(driver, {1: [2]}) == [PolicyViolationError.code]
    assert ask(driver, {1: [3]}) == [NO_ERROR]
    assert moving(driver) == [0, 1]


def test_room_in_orders_is_looked_at_again_when_a_move_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = started(2, 1, move_concurrent_per_broker=1)
    ask(driver, {0: [2], 1: [2]})
    monkeypatch.setattr(order_sizes, "ORDER_BYTES_MAX", 1)
    finish(driver, 0)
    assert moving(driver) == []
    phase, reason = listed(driver)[1]
    assert phase == wire.QUEUED
    assert reason.startswith("too many partitions: the order that lists all replicas of broker 2")
    monkeypatch.undo()
    driver.pass_time(RETRY_S)
    assert moving(driver) == [1]


def test_the_later_wish_for_a_partition_needs_no_room_of_its_own_for_what_is_added_already() -> (
    None
):
    driver = started(1, 1, 2, move_concurrent_max=1)
    ask(driver, {0: [1, 3]})
    ask(driver, {0: [3, 2]})
    assert driver.partition("t").placement.target == (3, 2)


def test_a_queued_wish_is_cancelled_without_a_move() -> None:
    driver = started(3, 1)
    ask(driver, dict.fromkeys(range(3), (2,)))
    assert ask(driver, {2: None}) == [NO_ERROR]
    finish(driver, 0)
    assert moving(driver) == [1]
    assert driver.partition("t", 2).state == driver.state("t", 2)
    assert driver.state("t", 2).leader_epoch == 0, "nothing was begun"


def test_the_topic_of_a_queued_wish_is_deleted() -> None:
    driver = started(3, 1)
    ask(driver, dict.fromkeys(range(3), (2,)))
    driver.ask(admin.DeleteTopicsRequest(["t"], 1000))
    assert driver.read_cluster().plans == ()
    driver.create("t", [1], [1], [1])
    driver.pass_time(2)
    assert moving(driver) == []


def test_wishes_are_looked_at_some_at_a_time() -> None:
    count = STEP_PARTITIONS + 10
    driver = started(count, 1)
    ask(driver, dict.fromkeys(range(count), (2,)))
    assert driver.machine.wake_at == driver.now
    assert moving(driver) == []
    driver.pass_time(0)
    assert moving(driver) == [0, 1]


def test_what_waits_and_what_is_held_up_is_counted() -> None:
    driver = started(3, 1, move_concurrent_max=1, brokers=3)
    executor = driver.machine.executor
    ask(driver, {0: [2], 1: [3], 2: [3]})
    assert (executor.queued_count, executor.stalled_count) == (2, 0)
    driver.lose(2)
    driver.pass_time(STALL_S + 2)
    assert (executor.queued_count, executor.stalled_count) == (1, 1)
    driver.join(2)
    assert executor.stalled_count == 0
