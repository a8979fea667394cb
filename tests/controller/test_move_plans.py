"""Plans are in the store before they count, and go from it wish by wish, whoever is controller."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog_controller import move_nodes, znodes
from oncelog_controller.move_nodes import WISHES_OF_NODE_MAX, MoveWish, PlanHead
from oncelog_controller.state import Placement
from oncelog_controller.store import Op, StoreDisconnectedError, StoreError
from oncelog_protocol.messages import moves as wire
from support.controller_driver import ASKED_AT_MS, ASKER, Driver, Node


def started(partitions: int, *replicas: int) -> Driver:
    """Return a cluster of brokers 1 to 4 in which a topic ``t`` has these replicas."""
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", *([list(replicas)] * partitions))
    return driver


def ask(driver: Driver, wishes: dict[int, Sequence[int] | None]) -> str:
    items = [
        wire.ReassignedPartition("t", index, None if target is None else [*target])
        for index, target in wishes.items()
    ]
    response = driver.ask(wire.AlterPartitionReassignmentsRequest(items, reason="a test"))
    assert {item.error_code for item in response.items} == {0}
    assert isinstance(response.plan_id, str)
    return response.plan_id


def plans(driver: Driver) -> dict[str, dict[int, tuple[int, ...]]]:
    """Return what the store has: targets by partition and plan."""
    found: dict[str, dict[int, tuple[int, ...]]] = {}
    for read in driver.read_cluster().plans:
        wishes = [wish for piece in read.pieces for wish in piece.wishes]
        found[read.head.plan_id] = {wish.partition: wish.target for wish in wishes}
    return found


def test_a_plan_says_who_wants_what_and_why() -> None:
    driver = started(1, 1, 2)
    plan_id = ask(driver, {0: [3, 2]})
    (read,) = driver.read_cluster().plans
    assert (read.head.plan_id, read.head.reason) == (plan_id, "a test")
    assert (read.head.by, read.head.since_ms) == (ASKER, ASKED_AT_MS)
    (piece,) = read.pieces
    assert piece.wishes == (MoveWish("t", driver.partition("t").topic.topic_id, 0, (3, 2)),)


def test_a_plan_is_written_before_anything_begins_and_goes_when_all_is_over() -> None:
    driver = started(2, 1, 2)
    driver.writes.clear()
    plan_id = ask(driver, {0: [3, 2], 1: [3, 2]})
    paths = [op.path for write in driver.writes for op in write]
    assert paths.index(move_nodes.plan_path(plan_id)) < paths.index(znodes.state_path("t", 0))
    driver.alter_isr("t", 1, 2, 3, partition=0)
    assert plans(driver) == {plan_id: {0: (3, 2), 1: (3, 2)}}, "some go together"
    driver.pass_time(2)
    assert plans(driver) == {plan_id: {1: (3, 2)}}
    driver.alter_isr("t", 1, 2, 3, partition=1)
    assert plans(driver) == {}


def test_of_two_plans_the_later_one_wins_also_for_the_next_controller() -> None:
    driver = started(3, 1, 2)
    first = ask(driver, {0: [3, 2], 1: [3, 2]})
    later = ask(driver, {1: [4, 2], 2: [4, 2]})
    wanted = {first: {0: (3, 2)}, later: {1: (4, 2), 2: (4, 2)}}
    assert plans(driver) == wanted
    heir = driver.take_over()
    assert plans(heir) == wanted
    assert heir.state("t", 1).placement == driver.state("t", 1).placement
    assert ask(heir, {0: None}) == "2-1"
    assert plans(heir) == {later: wanted[later]}


def test_a_wish_that_an_older_controller_left_behind_does_not_come_back() -> None:
    """It died after it had written the later plan, and before the older wish was taken out."""
    driver = started(1, 1, 2)
    topic_id = driver.partition("t").topic.topic_id
    for plan_id, target in (("1-1", (3, 2)), ("1-2", (2, 1))):
        head = PlanHead(plan_id, "", "", 0)
        data = move_nodes.encode_plan(head, [MoveWish("t", topic_id, 0, target)])
        driver.nodes[move_nodes.plan_path(plan_id)] = Node(data, 0, 1)
    heir = driver.take_over()
    assert heir.partition("t").replicas == (2, 1)
    assert plans(heir) == {}


def test_wishes_for_topics_that_are_gone_or_new_go() -> None:
    driver = started(1, 1, 2)
    for plan_id, topic, topic_id in (("1-1", "t", "another"), ("1-2", "gone", "id")):
        head = PlanHead(plan_id, "", "", 0)
        data = move_nodes.encode_plan(head, [MoveWish(topic, topic_id, 0, (3, 4))])
        driver.nodes[move_nodes.plan_path(plan_id)] = Node(data, 0, 1)
    heir = driver.take_over()
    assert plans(heir) == {}
    assert heir.partition("t").replicas == (1, 2)


def test_a_plan_without_wishes_goes() -> None:
    driver = started(1, 1, 2)
    data = move_nodes.encode_plan(PlanHead("1-1", "", "", 0), [])
    driver.nodes[move_nodes.plan_path("1-1")] = Node(data, 0, 1)
    assert plans(driver.take_over()) == {}


@pytest.mark.slow
def test_a_large_plan_has_several_nodes_and_they_go_one_by_one() -> None:
    count = WISHES_OF_NODE_MAX + 10
    driver = started(count, 1)
    plan_id = ask(driver, dict.fromkeys(range(count), (2,)))
    second = move_nodes.plan_path(plan_id, 1)
    assert second in driver.nodes
    assert len(plans(driver)[plan_id]) == count
    heir = driver.take_over()
    assert len(plans(heir)[plan_id]) == count
    ask(heir, dict.fromkeys(range(WISHES_OF_NODE_MAX, count)))
    heir.pass_time(5)
    assert second not in heir.nodes
    assert len(plans(heir)[plan_id]) == WISHES_OF_NODE_MAX


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("step", range(6))
def test_whatever_the_controller_dies_after_the_next_one_goes_on(step: int, applied: bool) -> None:
    """The multis are the plan, the begin, the ISR, the finish, the sweep and the last wish."""
    driver = started(1, 1, 2)
    count = 0

    def die(ops: Sequence[Op]) -> tuple[StoreError, bool] | None:
        nonlocal count
        count += 1
        return (StoreDisconnectedError(), applied) if count == step + 1 else None

    driver.fail_write = die
    request = wire.AlterPartitionReassignmentsRequest([wire.ReassignedPartition("t", 0, [3, 2])])
    heirs = 0
    for _ in range(3):
        if not plans(driver) and driver.partition("t").replicas == (1, 2):
            driver.ask(request)
        if not driver.lost_track and 3 not in driver.state("t").isr:
            driver.alter_isr("t", 1, 2, 3)
        if not driver.lost_track:
            driver.pass_time(2)
        if driver.lost_track:
            driver, heirs = driver.take_over(), heirs + 1
    assert heirs == 1
    assert driver.state("t").placement == Placement((3, 2))
    assert plans(driver) == {}
