"""Moves are asked for, refused, cancelled and listed; a refusal keeps no other from moving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.state import Placement
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    NO_ERROR,
    InvalidRequestError,
    UnsupportedVersionError,
    error_for,
)
from oncelog_protocol.messages import admin
from oncelog_protocol.messages import moves as wire
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    NO_ROOM,
    BrokerReportRequest,
    ReportedCopy,
    ReportedTopic,
)
from support.controller_driver import ASKED_AT_MS, Driver

Item = wire.ReassignedPartition


def started(*replicas: int) -> Driver:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", replicas or (1, 2))
    return driver


def ask(driver: Driver, *items: Item, **options: Any) -> wire.AlterPartitionReassignmentsResponse:
    response = driver.ask(wire.AlterPartitionReassignmentsRequest([*items], **options))
    assert isinstance(response, wire.AlterPartitionReassignmentsResponse)
    assert response.error_code == NO_ERROR
    return response


def placement(driver: Driver, topic: str = "t") -> Placement:
    found = driver.state(topic).placement
    assert found is not None
    return found


def listed(driver: Driver, topics: list[str] | None = None) -> list[wire.PartitionMove]:
    response = driver.ask(wire.ListPartitionReassignmentsRequest(topics))
    assert response.error_code == NO_ERROR
    found: list[wire.PartitionMove] = response.partitions
    return found


def test_a_partition_gets_other_replicas() -> None:
    driver = started(1, 2)
    response = ask(driver, Item("t", 0, [3, 2]))
    assert [item.error_code for item in response.items] == [NO_ERROR]
    assert placement(driver) == Placement((1, 2, 3), (1, 2), (3, 2), (), response.plan_id)
    driver.alter_isr("t", 1, 2, 3)
    assert placement(driver) == Placement((3, 2))


def test_the_cluster_s_own_topics_move_as_others_do() -> None:
    driver = Driver.started(1, 2, 3)
    topic = "__consumer_offsets"
    new = admin.CreatableTopic(topic, -1, -1, [[1, 2]])
    driver.ask(admin.CreateTopicsRequest([new], 1000), internal=True)
    ask(driver, Item(topic, 0, [1, 3]))
    assert placement(driver, topic).target == (1, 3)


def test_the_first_move_says_in_its_own_multi_that_partitions_move() -> None:
    driver = started(1, 2)
    driver.create("u", [1])
    assert znodes.FEATURES not in driver.nodes
    driver.writes.clear()
    ask(driver, Item("t", 0, [3, 2]))
    plan, begun, *_ = [[op.path for op in write][1:] for write in driver.writes]
    assert plan == [f"{znodes.MOVES}/1-1"]
    assert begun == [znodes.FEATURES, znodes.state_path("t", 0)]
    for target in (2, 3):
        driver.writes.clear()
        ask(driver, Item("u", 0, [target]))
        assert znodes.FEATURES not in [op.path for write in driver.writes for op in write]
        driver = driver.take_over()
    assert znodes.decode_features(driver.nodes[znodes.FEATURES].data) == ["moves"]


def test_nothing_moves_while_a_broker_runs_a_release_that_knows_no_moves() -> None:
    driver = started(1, 2)
    driver.brokers[3] = replace(driver.brokers[3], features=frozenset())
    driver.read_brokers()
    response = driver.ask(wire.AlterPartitionReassignmentsRequest([Item("t", 0, [4, 2])]))
    assert response.error_code == UnsupportedVersionError.code
    assert (
        response.error_message == "brokers 3 run a release that knows no moves: update them first"
    )
    assert placement(driver) == Placement((1, 2))
    driver.join(3)
    ask(driver, Item("t", 0, [4, 2]))
    assert placement(driver).target == (4, 2)


REFUSED: list[tuple[str, Item, str, str]] = [
    ("no topic", Item("u", 0, [1]), "UNKNOWN_TOPIC_OR_PARTITION", "list the topics"),
    ("no partition", Item("t", 1, [1]), "UNKNOWN_TOPIC_OR_PARTITION", "from 0 to 0"),
    ("below 0", Item("t", -1, [1]), "UNKNOWN_TOPIC_OR_PARTITION", "from 0 to 0"),
    ("nobody", Item("t", 0, []), "INVALID_REPLICA_ASSIGNMENT", "name a broker"),
    ("twice", Item("t", 0, [3, 3]), "INVALID_REPLICA_ASSIGNMENT", "name each broker once"),
    ("unknown", Item("t", 0, [9, 1]), "INVALID_REPLICA_ASSIGNMENT", "that are: 1, 2, 3, 4"),
    ("fewer", Item("t", 0, [1]), "INVALID_REPLICATION_FACTOR", "name 2 brokers, or allow"),
    ("more", Item("t", 0, [1, 2, 3]), "INVALID_REPLICATION_FACTOR", "name 2 brokers, or allow"),
    ("others", Item("t", 0, [3, 4], [2, 1]), "INVALID_UPDATE_VERSION", "decide anew"),
    ("cancel", Item("t", 0, None), "NO_REASSIGNMENT_IN_PROGRESS", "list what moves"),
]


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("item", "error", "remedy"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_nothing_is_begun_for_what_is_refused_and_others_move(
    item: Item, error: str, remedy: str, validate_only: bool
) -> None:
    driver = started(1, 2)
    driver.create("good", [1])
    response = ask(driver, item, Item("good", 0, [2]), validate_only=validate_only)
    refused, taken = response.items
    assert error_for(refused.error_code).name == error
    assert remedy in (refused.error_message or "")
    assert (refused.topic, refused.partition) == (item.topic, item.partition)
    assert taken.error_code == NO_ERROR
    assert placement(driver) == Placement((1, 2))
    assert bool(placement(driver, "good").origin) is not validate_only
    assert bool(response.plan_id) is not validate_only


def test_a_partition_that_is_named_twice_does_not_move() -> None:
    driver = started(1, 2)
    response = ask(driver, Item("t", 0, [3, 2]), Item("t", 0, [4, 2]))
    assert {item.error_code for item in response.items} == {InvalidRequestError.code}
    assert response.plan_id == ""
    assert placement(driver) == Placement((1, 2))


def test_a_broker_that_is_away_may_stay_and_none_may_be_added() -> None:
    driver = started(1, 2)
    driver.lose(2)
    away, back = ask(driver, Item("t", 0, [3, 2])), ask(driver, Item("t", 0, [2, 3]))
    assert [*away.items, *back.items][0].error_code == NO_ERROR
    driver.create("u", [1])
    (refused,) = ask(driver, Item("u", 0, [2])).items
    assert refused.error_message == (
        "u-0 cannot move to 2, not registered; brokers that are: 1, 3, 4"
    )


@pytest.mark.parametrize("target", [(1,), (1, 2, 3)])
def test_the_number_of_replicas_may_change_when_that_is_allowed(target: Sequence[int]) -> None:
    driver = started(1, 2)
    (result,) = ask(driver, Item("t", 0, [*target]), allow_replication_factor_change=True).items
    assert result.error_code == NO_ERROR
    driver.alter_isr("t", *sorted({1, *target}))
    assert placement(driver).replicas == target


def test_the_later_wish_wins() -> None:
    driver = started(1, 2)
    first = ask(driver, Item("t", 0, [3, 2]))
    later = ask(driver, Item("t", 0, [4, 2], [1, 2, 3]))
    assert placement(driver).target == (4, 2)
    assert placement(driver).move == later.plan_id != first.plan_id


def test_a_move_that_is_cancelled_goes_back_and_says_so() -> None:
    driver = started(1, 2)
    driver.alter_isr("t", 1)
    ask(driver, Item("t", 0, [3, 4]))
    driver.alter_isr("t", 1, 3)
    (result,) = ask(driver, Item("t", 0, None)).items
    assert (result.error_code, result.bytes_to_copy) == (NO_ERROR, 0)
    (move,) = listed(driver)
    assert (move.phase, move.target, move.origin) == (wire.TURNING_BACK, [1, 2], [1, 2])
    driver.alter_isr("t", 1, 2, 3)
    assert placement(driver) == Placement((1, 2))


def test_what_only_added_replicas_hold_may_be_given_up() -> None:
    driver = started(1, 2)
    driver.alter_isr("t", 1)
    ask(driver, Item("t", 0, [3, 4]))
    driver.alter_isr("t", 1, 3)
    ask(driver, Item("t", 0, None), now=True)
    assert placement(driver) == Placement((1, 2))
    assert driver.state("t").isr == (1,)


def test_what_moves_is_listed() -> None:
    driver = started(1, 2)
    driver.create("u", [1])
    assert listed(driver) == []
    plan_id = ask(driver, Item("t", 0, [3, 2])).plan_id
    move = wire.PartitionMove("t", 0, plan_id, [1, 2, 3], [1, 2], [3, 2], [], wire.COPYING)
    move.since_ms = ASKED_AT_MS
    assert listed(driver) == listed(driver, ["t", "gone"]) == [move]
    assert listed(driver, ["u"]) == listed(driver, []) == []


def test_who_has_yet_to_delete_is_listed() -> None:
    driver = started(1, 2)
    ask(driver, Item("t", 0, [3, 2]))
    driver.lose(1)
    driver.alter_isr("t", 2, 3)
    (move,) = listed(driver)
    assert (move.phase, move.leaving, move.replicas) == (wire.LEAVING, [1], [3, 2])


def test_a_deleted_topic_does_not_move_any_more() -> None:
    driver = started(1, 2)
    ask(driver, Item("t", 0, [3, 2]))
    driver.ask(admin.DeleteTopicsRequest(["t"], 1000))
    assert listed(driver) == []
    (refused,) = ask(driver, Item("t", 0, None)).items
    assert error_for(refused.error_code).name == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (
            wire.AlterPartitionReassignmentsRequest(
                [Item("t", 0, [1, 2])] * (limits.MOVES_OF_REQUEST_MAX + 1)
            ),
            "a request may name 10000",
        ),
        (
            wire.AlterPartitionReassignmentsRequest(
                [Item("t", 0, [1, 2])], reason="x" * (limits.MOVE_REASON_CHARS_MAX + 1)
            ),
            "it may have 1000",
        ),
    ],
)
def test_a_request_that_is_too_large_is_refused_as_a_whole(
    request_: wire.AlterPartitionReassignmentsRequest, told: str
) -> None:
    response = started(1, 2).ask(request_)
    assert response.error_code == InvalidRequestError.code
    assert told in response.error_message


# ---------------------------------------------------------------- what is to be copied


def topic_id(driver: Driver) -> str:
    return driver.partition("t").topic.topic_id


def report(driver: Driver, broker_id: int, size: int, copies: Sequence[ReportedCopy] = ()) -> None:
    """Have a broker tell that its replica is so large; 10 bytes a second come in."""
    replicas = ReportedTopic(topic_id(driver), [0], [size], [10], [0], [0])
    epoch = driver.brokers[broker_id].broker_epoch
    request = BrokerReportRequest(broker_id, epoch, 1, ANEW, True, [], [replicas], list(copies))
    assert driver.ask(request).error_code == NO_ERROR


def test_a_wish_is_answered_with_the_bytes_to_copy_as_far_as_brokers_have_told() -> None:
    driver = started(1, 2)
    assert ask(driver, Item("t", 0, [3, 2]), validate_only=True).items[0].bytes_to_copy == -1
    report(driver, 1, 500)
    report(driver, 3, 0)
    (result,) = ask(driver, Item("t", 0, [3, 2]), validate_only=True).items
    assert (result.bytes_to_copy, result.seconds) == (500, -1)
    (result,) = ask(driver, Item("t", 0, [2, 1]), validate_only=True).items
    assert (result.bytes_to_copy, result.seconds) == (0, 0)


def test_what_moves_tells_how_far_it_is_and_what_hinders_it() -> None:
    driver = started(1, 2)
    ask(driver, Item("t", 0, [3, 2]))
    (move,) = listed(driver)
    assert (move.bytes_total, move.bytes_done, move.bytes_per_s) == (-1, -1, -1)
    report(driver, 1, 500)
    copy = ReportedCopy(topic_id(driver), 0, 1, 7, 60, NO_ROOM)
    report(driver, 3, 200, [copy])
    (move,) = listed(driver)
    assert (move.bytes_total, move.bytes_done, move.bytes_per_s) == (500, 200, 50)
    assert move.reason == f"broker 3: {NO_ROOM}"


def test_a_move_that_turns_back_tells_how_far_its_original_replicas_are() -> None:
    driver = started(1, 2)
    ask(driver, Item("t", 0, [3, 4]))
    driver.alter_isr("t", 1, 3)
    report(driver, 1, 500)
    report(driver, 2, 100, [ReportedCopy(topic_id(driver), 0, 1, 7, 60, "")])
    ask(driver, Item("t", 0, None))
    (move,) = listed(driver)
    assert (move.phase, move.bytes_total, move.bytes_done) == (wire.TURNING_BACK, 1000, 600)
