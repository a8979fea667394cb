"""Plans are asked for and answered some turns later; nothing is changed, and others go on."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.balance_requests import WAITING_MAX
from oncelog_controller.events import TimeReached
from oncelog_controller.state import OutOfService
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages import admin
from oncelog_protocol.messages import balance as wire
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    BrokerReportRequest,
    ReportedDirectory,
    ReportedTopic,
)
from oncelog_protocol.messages.broker_states import DECOMMISSIONING
from support.controller_driver import ASKED_AT_MS, ASKER, Driver

Request = wire.BalanceRequest


def balance(driver: Driver, purpose: str = wire.BALANCE, **fields: Any) -> wire.BalanceResponse:
    """Return the answer to a request, when its plan is made."""
    request_id = driver.ask_later(Request(purpose, **fields))
    writes = len(driver.writes)
    driver.pass_time(0.0)
    assert len(driver.writes) == writes, "nothing has changed"
    answer = driver.replies[request_id]
    assert isinstance(answer, wire.BalanceResponse)
    return answer


def state_of(state: str) -> bytes:
    return znodes.encode_broker_state(OutOfService(state, ASKED_AT_MS, ASKER))


def targets(answer: wire.BalanceResponse) -> dict[tuple[str, int], list[int]]:
    assert answer.error_code == 0, answer.error_message
    return {(step.topic, step.partition): step.target for step in answer.steps}


def measure(answer: wire.BalanceResponse, goal: str) -> tuple[int, int]:
    (found,) = [each for each in answer.measures if each.goal == goal]
    return found.before, found.after


def report(driver: Driver, broker_id: int, size: int, topic: str = "t") -> None:
    """Have a broker tell of a disk that is half full, and of a replica of partition 0."""
    topic_id = driver.machine.cluster.topics[topic].topic_id
    replicas = ReportedTopic(topic_id, [0], [size], [3], [0], [0])
    disk = ReportedDirectory("/data", 1000, 500, True)
    epoch = driver.brokers[broker_id].broker_epoch
    driver.ask(BrokerReportRequest(broker_id, epoch, 1, ANEW, True, [disk], [replicas]))


def test_a_broker_that_joined_gets_replicas() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", *[[1, 2]] * 3)
    driver.join(3)
    answer = balance(driver)
    assert len(answer.steps) >= 2
    assert sum(3 in step.target for step in answer.steps) == 2
    assert measure(answer, "replicas") == (4, 0)
    assert [each.goal for each in answer.measures] == list(wire.GOALS)
    assert answer.held_up == []


def test_bytes_are_those_that_were_reported() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2], [1, 2])
    report(driver, 1, 70)
    for_one = balance(driver, goals=["replicas"], max_moves=1)
    (step,) = for_one.steps
    assert (step.partition, step.bytes, step.goal) == (1, -1, "replicas"), "0 bytes as far as known"
    both = balance(driver, wire.REPLICATION_FACTOR, topics=["t"], factor=3)
    assert [(step.partition, step.bytes) for step in both.steps] == [(0, 70), (1, -1)]
    assert balance(driver, wire.REPLICATION_FACTOR, topics=["t"], factor=1).steps[0].bytes == 0


def test_no_plan_fills_a_disk_beyond_the_mark() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1])
    for broker_id, size in ((1, 301), (2, 0)):
        report(driver, broker_id, size)
    answer = balance(driver, wire.REPLICATION_FACTOR, topics=["t"], factor=2)
    assert answer.steps == []
    (held,) = answer.held_up
    assert (held.topic, held.partition, held.goal) == ("t", 0, "whole")
    assert held.reason == "no broker has room for it on its disks"


def test_replicas_leave_brokers_that_are_decommissioned() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2], [2, 1])
    driver.create("u", [2, 3])
    driver.put(znodes.broker_state_path(2), state_of(DECOMMISSIONING))
    driver.load()
    request_id = driver.ask_later(Request(wire.EVACUATE, topics=["t"]))  # before they do so anyway
    driver.pass_time(0.0)
    answer = driver.replies[request_id]
    assert targets(answer) == {("t", 0): [1, 3], ("t", 1): [3, 1]}
    assert measure(answer, "evacuate") == (3, 1)


def test_replicas_of_brokers_that_are_away_are_placed_elsewhere_when_that_is_asked() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    driver.lose(2)
    assert balance(driver).steps == []
    assert targets(balance(driver, wire.REPAIR)) == {("t", 0): [1, 3]}


def test_replicas_leave_brokers_that_are_named() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2], [2, 1])
    driver.create("u", [2, 3])
    answer = balance(driver, wire.EVACUATE, topics=["t"], from_brokers=[2])
    assert targets(answer) == {("t", 0): [1, 3], ("t", 1): [3, 1]}
    assert {step.seconds for step in answer.steps} == {-1}, "nobody has copied anything"


REFUSED = [
    (Request("balance", from_brokers=[1]), "INVALID_REQUEST", "by a plan to evacuate only"),
    (Request("tidy"), "INVALID_REQUEST", "balance, evacuate, replication_factor, repair"),
    (Request("balance", goals=["x"]), "INVALID_REQUEST", "evacuate, whole, racks"),
    (Request("balance", max_moves=-2), "INVALID_REQUEST", "0 or more, or -1"),
    (Request("balance", topics=["u"]), "UNKNOWN_TOPIC_OR_PARTITION", "list the topics"),
    (Request("replication_factor", factor=1), "INVALID_REQUEST", "name the topics"),
    (
        Request("replication_factor", ["t"], 4),
        "INVALID_REPLICATION_FACTOR",
        "replication factor 4, but 3 brokers",
    ),
    (Request("replication_factor", ["t"], 0), "INVALID_REPLICATION_FACTOR", "factor 0"),
]


@pytest.mark.parametrize(("request_", "error", "told"), REFUSED)
def test_what_no_plan_can_be_made_for_is_refused_at_once(
    request_: Request, error: str, told: str
) -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1])
    answer = driver.ask(request_)
    assert error_for(answer.error_code).name == error
    assert told in answer.error_message


def test_others_are_served_between_two_turns_and_plans_are_made_in_order() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", *[[1, 2]] * 200)
    first, second = driver.ask_later(Request("balance")), driver.ask_later(Request("balance"))
    driver.handle(TimeReached())
    assert driver.machine.wake_at == driver.now
    assert driver.create("u", [1]).error_code == 0
    assert first not in driver.replies
    while first not in driver.replies:
        driver.handle(TimeReached())
    assert second not in driver.replies
    driver.pass_time(0.0)
    assert driver.replies[second].error_code == 0


def test_not_everybody_can_wait() -> None:
    driver = Driver.started(1)
    driver.create("t", [1])
    waiting = [driver.ask_later(Request("balance")) for _ in range(WAITING_MAX + 1)]
    refused = driver.ask(Request("balance"))
    assert error_for(refused.error_code).name == "POLICY_VIOLATION"
    driver.pass_time(0.0)
    assert {driver.replies[each].error_code for each in waiting} == {0}


def test_a_plan_is_begun_anew_when_the_store_was_read_again() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", *[[1, 2]] * 50)
    asked = driver.ask_later(Request("balance"))
    driver.handle(TimeReached())
    driver.load()
    driver.ask(admin.DeleteTopicsRequest(["t"], 1000))
    driver.pass_time(0.0)
    assert driver.replies[asked].steps == []
