"""Replicas leave a broker that is decommissioned by themselves, and stay when it is back."""

from __future__ import annotations

from oncelog_controller.move_nodes import Priority
from oncelog_protocol.errors import PolicyViolationError
from oncelog_protocol.messages import moves
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    BrokerReportRequest,
    ReportedDirectory,
    ReportedTopic,
)
from oncelog_protocol.messages.broker_states import (
    DECOMMISSIONED,
    DECOMMISSIONING,
    DRAINING,
    MOVES,
    NOT_PLANNED,
    QUEUED,
    AlterBrokerStatesRequest,
    AlterBrokerStatesResponse,
)
from oncelog_protocol.messages.metadata import ACTIVE
from oncelog_protocol.types import TopicPartition
from support.controller_driver import ASKED_AT_MS, Driver
from support.room_settings import controller_settings


def alter(
    driver: Driver, broker_id: int, wanted: str, *, validate_only: bool = False
) -> AlterBrokerStatesResponse:
    """Return the answer, when it was found out whether there is room."""
    request = AlterBrokerStatesRequest(broker_id, wanted, validate_only=validate_only)
    request_id = driver.ask_later(request)
    driver.pass_time(0)
    answer = driver.replies[request_id]
    assert isinstance(answer, AlterBrokerStatesResponse)
    return answer


def decommission(driver: Driver, broker_id: int) -> None:
    """Take a broker out of service, and let the plan be made."""
    answer = alter(driver, broker_id, DECOMMISSIONING)
    assert answer.error_code == 0, answer.error_message
    driver.pass_time(0.1)


def copied(driver: Driver, topic: str = "t") -> None:
    """All replicas of a topic are in sync, and what moves comes to its end."""
    for partition in list(driver.machine.cluster.topics[topic].partitions):
        if partition.placement.origin:
            there = [b for b in partition.replicas if b in driver.brokers]
            driver.alter_isr(topic, *there, partition=partition.index)


def replicas(driver: Driver, topic: str = "t") -> list[tuple[int, ...]]:
    return [partition.replicas for partition in driver.machine.cluster.topics[topic].partitions]


def reasons(driver: Driver, broker_id: int) -> list[str]:
    answer = alter(driver, broker_id, DECOMMISSIONING, validate_only=True)
    return [held.reason for held in answer.replicas_left]


def report(driver: Driver, broker_id: int, free: int, size: int = 0) -> None:
    """Have a broker tell of a disk of 1000 bytes, and of a replica of t-0."""
    topic_id = driver.machine.cluster.topics["t"].topic_id
    told = ReportedTopic(topic_id, [0], [size], [0], [0], [0])
    disk = ReportedDirectory("/data", 1000, free, True)
    epoch = driver.brokers[broker_id].broker_epoch
    driver.ask(BrokerReportRequest(broker_id, epoch, 1, ANEW, True, [disk], [told] if size else []))


def test_replicas_leave_by_themselves_until_the_broker_is_decommissioned() -> None:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", [1, 2], [2, 3], [3, 4])
    decommission(driver, 2)
    (head,) = driver.machine._plans.heads
    assert (head.priority, head.evacuates, head.by) == (Priority.EVACUATE, (2,), "")
    assert head.since_ms >= ASKED_AT_MS
    assert reasons(driver, 2) == [MOVES, MOVES]
    copied(driver)
    assert all(2 not in each for each in replicas(driver))
    assert replicas(driver)[2] == (3, 4), "it had no reason to move"
    driver.pass_time(3)
    assert driver.machine.cluster.service_of(2) == DECOMMISSIONED
    assert driver.machine._plans.heads == []


def test_the_next_controller_goes_on_with_what_is_left() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    answer = alter(driver, 2, DECOMMISSIONING, validate_only=True)
    assert [held.reason for held in answer.replicas_left] == [NOT_PLANNED]
    alter(driver, 2, DECOMMISSIONING)
    heir = driver.take_over()
    heir.pass_time(0.1)
    copied(heir)
    assert 2 not in replicas(heir)[0]
    heir.pass_time(3)
    assert heir.machine.cluster.service_of(2) == DECOMMISSIONED


def test_moves_turn_back_when_the_broker_is_back_in_service() -> None:
    config = controller_settings(move_concurrent_per_broker=1)
    driver = Driver.started(1, 2, 3, config=config)
    driver.create("t", [1, 2], [2, 1])
    decommission(driver, 2)
    assert sorted(reasons(driver, 2)) == sorted([MOVES, QUEUED])
    alter(driver, 2, ACTIVE)
    driver.pass_time(0.1)
    copied(driver)
    driver.pass_time(3)
    assert replicas(driver) == [(1, 2), (2, 1)]
    assert driver.machine._plans.heads == []


def test_the_next_controller_turns_back_what_the_last_one_did_not() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    decommission(driver, 2)
    driver.ask(AlterBrokerStatesRequest(2, ACTIVE))  # and it dies right after
    heir = driver.take_over()
    heir.pass_time(0.1)
    copied(heir)
    heir.pass_time(3)
    assert replicas(heir) == [(1, 2)]


def test_what_a_person_has_moved_away_does_not_turn_back() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    wish = moves.ReassignedPartition("t", 0, [1, 3])
    driver.ask(moves.AlterPartitionReassignmentsRequest([wish]))
    decommission(driver, 2)
    alter(driver, 2, ACTIVE)
    driver.pass_time(0.1)
    copied(driver)
    assert replicas(driver) == [(1, 3)]


def test_of_two_brokers_that_leave_one_comes_back() -> None:
    driver = Driver.started(1, 2, 3, 4, 5)
    driver.create("t", [2, 3])
    decommission(driver, 2)
    decommission(driver, 3)
    alter(driver, 2, ACTIVE)
    driver.pass_time(11)
    copied(driver)
    driver.pass_time(11)
    copied(driver)
    (found,) = replicas(driver)
    assert 2 in found
    assert 3 not in found


def test_a_wish_for_a_broker_that_leaves_gets_another_target() -> None:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", [1, 2], [1, 3])
    wishes = [moves.ReassignedPartition("t", index, [1, 4]) for index in (0, 1)]
    driver.ask(moves.AlterPartitionReassignmentsRequest(wishes))
    decommission(driver, 4)
    driver.pass_time(11)
    copied(driver)
    driver.pass_time(3)
    assert all(4 not in each and len(each) == 2 for each in replicas(driver))
    assert driver.machine.cluster.service_of(4) == DECOMMISSIONED


def test_a_broker_without_room_elsewhere_is_not_decommissioned() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    for broker_id, free, size in ((1, 500, 70), (2, 500, 70), (3, 269, 0)):
        report(driver, broker_id, free, size)
    writes = len(driver.writes)
    answer = alter(driver, 2, DECOMMISSIONING)
    assert answer.error_code == PolicyViolationError.code
    assert "below 80 %, for t-0: add a broker" in str(answer.error_message)
    assert alter(driver, 2, DECOMMISSIONING, validate_only=True).error_code == answer.error_code
    assert len(driver.writes) == writes, "nothing has changed"
    report(driver, 3, 270)
    assert alter(driver, 2, DECOMMISSIONING).error_code == 0


def test_what_cannot_leave_says_why_and_is_tried_again() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    driver.create("alone", [2])
    alter(driver, 3, DRAINING)
    driver.lose(2)
    decommission(driver, 2)
    assert reasons(driver, 2) == [
        "it has no leader",
        "every broker that may take replicas has one",
    ], "one that drains is given nothing"
    alter(driver, 3, ACTIVE)
    driver.pass_time(1)
    assert reasons(driver, 2) == ["it has no leader", MOVES]


def test_a_move_that_cannot_begin_says_why() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    decommission(driver, 2)
    driver.lose(3)
    driver.pass_time(1000)
    (reason,) = reasons(driver, 2)
    assert reason == "its move is held up: broker 3 is not registered"


def test_a_dead_broker_is_not_waited_for() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    driver.lose(2)
    decommission(driver, 2)
    copied(driver)
    driver.pass_time(3)
    assert driver.partition("t").placement.leaving == (2,), "it deletes when it comes back"
    assert driver.machine.cluster.service_of(2) == DECOMMISSIONED
    listed = driver.ask(moves.ListPartitionReassignmentsRequest())
    assert listed.partitions == [], "who waits for the end of moves does not wait for it either"
    driver.join(2)
    assert driver.partition("t").placement.leaving == ()


def test_what_has_changed_since_it_was_planned_is_left_to_the_next_plan() -> None:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", [1, 2])
    request_id = driver.ask_later(AlterBrokerStatesRequest(2, DECOMMISSIONING))
    driver.pass_time(0)
    assert driver.replies[request_id].error_code == 0
    wish = moves.ReassignedPartition("t", 0, [1, 4])
    driver.ask(moves.AlterPartitionReassignmentsRequest([wish]))
    driver.pass_time(1)
    assert driver.machine._plans.wanted[TopicPartition("t", 0)].wish.target == (1, 4)
