"""Moves go from their beginning to the last broker that has to delete, whoever is controller."""

from __future__ import annotations

import pytest

from oncelog_controller.events import GoOn
from oncelog_controller.state import Placement
from oncelog_protocol.errors import StorageError
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import LeaderAndIsrRequest, StopReplicaRequest
from support.controller_driver import Driver, summary


def started(*replicas: int, **configs: str) -> Driver:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", replicas, **configs)
    return driver


def move(driver: Driver, *target: int, name: str = "plan") -> None:
    """Begin to move t-0, and handle what follows."""
    driver.machine._moves.begin([(driver.partition("t"), target)], name)
    driver.handle(GoOn())  # any event carries the effects out


def placement(driver: Driver) -> Placement:
    found = driver.state("t").placement
    assert found is not None
    return found


def stops(driver: Driver) -> list[tuple[int, int, bool]]:
    return [
        (broker_id, stop.leader_epoch, stop.delete)
        for broker_id, request in driver.requests
        if isinstance(request, StopReplicaRequest)
        for stop in request.partitions
    ]


def test_a_move_from_its_beginning_to_its_end() -> None:
    driver = started(1, 2, 3, retention_ms="1000")
    driver.requests.clear()
    move(driver, 4, 2, 3)
    assert placement(driver) == Placement((1, 2, 3, 4), (1, 2, 3), (4, 2, 3), (), "plan")
    assert summary(driver) == (1, 1, [1, 2, 3])
    new = {
        broker_id: (order.partitions[0].is_new, [config.topic for config in order.configs])
        for broker_id, order in driver.requests
        if isinstance(order, LeaderAndIsrRequest)
    }
    assert new == {1: (False, []), 2: (False, []), 3: (False, []), 4: (True, ["t"])}
    assert stops(driver) == []
    assert driver.alter_isr("t", 1, 2, 3, 4).error_code == 0
    assert summary(driver) == (4, 2, [4, 2, 3]), "the leader had to go"
    assert stops(driver) == [(1, 2, True)]
    assert placement(driver) == Placement((4, 2, 3)), "it has deleted what it had"
    assert driver.partition("t").replica_phases.keys() == {2, 3, 4}


def test_the_leader_stays_if_it_may() -> None:
    driver = started(1, 2)
    move(driver, 3, 1)
    driver.alter_isr("t", 1, 2, 3)
    assert summary(driver) == (1, 2, [3, 1])


def test_a_smaller_target_is_there_at_once() -> None:
    driver = started(1, 2, 3)
    move(driver, 2)
    assert summary(driver) == (2, 2, [2])
    assert [stop[0] for stop in stops(driver)] == [1, 3]


def test_a_lagging_member_is_waited_for_before_others_are_dropped() -> None:
    driver = started(1, 2, 3)
    driver.alter_isr("t", 1, 2)
    move(driver, 1, 3)
    assert placement(driver).origin == (1, 2, 3)
    driver.alter_isr("t", 1, 2, 3)
    assert placement(driver).replicas == (1, 3)


def test_a_suspected_replica_does_not_count() -> None:
    driver = started(1, 2)
    move(driver, 3, 4)
    driver.suspect(4)
    assert driver.alter_isr("t", 1, 2, 3).error_code == 0
    driver.clear(4)
    driver.alter_isr("t", 1, 2, 3, 4)
    assert placement(driver).replicas == (3, 4)


def test_the_next_controller_goes_on() -> None:
    driver = started(1, 2)
    move(driver, 3, 2)
    heir = driver.take_over()
    heir.alter_isr("t", 1, 2, 3)
    assert placement(heir).replicas == (3, 2)


def test_who_is_away_deletes_when_it_is_back() -> None:
    driver = started(1, 2)
    move(driver, 2, 3)
    driver.lose(1)
    driver.alter_isr("t", 2, 3)
    assert placement(driver) == Placement((2, 3), leaving=(1,))
    epoch = driver.state("t").leader_epoch
    heir = driver.take_over()
    heir.requests.clear()
    heir.join(1)
    assert stops(heir) == [(1, epoch, True)]
    assert placement(heir) == Placement((2, 3))
    assert heir.state("t").leader_epoch == epoch, "nobody has to hear of it"


def test_who_cannot_delete_is_not_forgotten() -> None:
    driver = started(1, 2)
    driver.auto_ack = False
    move(driver, 1)
    (request,) = [r for _, r in driver.requests if isinstance(r, StopReplicaRequest)]
    driver.handle(driver.answer(2, request, StorageError.code))
    assert placement(driver).leaving == (2,)
    driver.handle(driver.answer(2, request))
    assert placement(driver).leaving == ()


def test_an_answer_from_before_it_was_a_replica_again_counts_for_nothing() -> None:
    driver = started(1, 2)
    driver.auto_ack = False

    def last_stop() -> StopReplicaRequest:
        stops = [r for b, r in driver.requests if b == 2 and isinstance(r, StopReplicaRequest)]
        return stops[-1]

    move(driver, 1)
    late = last_stop()
    move(driver, 1, 2)
    driver.alter_isr("t", 1, 2)
    assert placement(driver) == Placement((1, 2)), "it is a replica again"
    move(driver, 1)
    driver.handle(driver.answer(2, late))
    assert placement(driver).leaving == (2,)
    driver.handle(driver.answer(2, last_stop()))
    assert placement(driver).leaving == ()


def test_the_answer_to_a_repeated_order_counts_after_others_wrote_the_state() -> None:
    driver = started(1, 2, 3)
    driver.auto_ack = False
    move(driver, 1, 2)
    (request,) = [r for _, r in driver.requests if isinstance(r, StopReplicaRequest)]
    driver.suspect(1)
    assert driver.state("t").leader_epoch > request.partitions[0].leader_epoch
    driver.handle(driver.answer(3, request))
    assert placement(driver).leaving == ()


def test_who_may_still_have_data_is_not_told_to_begin_anew() -> None:
    """Its log may be in a directory that is offline: a second one would be made beside it."""
    driver = started(1, 2, retention_ms="1000")
    move(driver, 1)
    driver.auto_ack = False
    move(driver, 1, 3)
    move(driver, 1)
    assert placement(driver).leaving == (3,)
    driver.requests.clear()
    move(driver, 1, 2, 3)
    new = {
        broker_id: (order.partitions[0].is_new, [config.topic for config in order.configs])
        for broker_id, order in driver.requests
        if isinstance(order, LeaderAndIsrRequest)
    }
    assert new == {1: (False, []), 2: (True, ["t"]), 3: (False, ["t"])}


def test_many_that_finish_at_once_do_not_all_get_the_same_leader() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", *([1, 2, 3] for _ in range(4)))
    partitions = [driver.partition("t", index) for index in range(4)]
    driver.machine._moves.begin([(each, (2, 3)) for each in partitions], "plan")
    driver.handle(GoOn())
    assert sorted(driver.state("t", index).leader for index in range(4)) == [2, 2, 3, 3]


def test_another_end_and_the_way_back() -> None:
    driver = started(1, 2)
    move(driver, 3, 4)
    move(driver, 3, 2, name="other")
    assert placement(driver) == Placement((1, 2, 3), (1, 2), (3, 2), (), "other")
    assert [stop[0] for stop in stops(driver)] == [4]
    move(driver, 1, 2, name="back")
    assert placement(driver) == Placement((1, 2))
    assert summary(driver)[2] == [1, 2]


def test_a_deleted_topic_moves_no_more() -> None:
    driver = started(1, 2)
    move(driver, 3, 4)
    driver.ask(admin.DeleteTopicsRequest(["t"], 1000))
    assert {stop[0] for stop in stops(driver)} == {1, 2, 3, 4}
    driver.create("t", [1])
    assert placement(driver) == Placement((1,))


@pytest.mark.parametrize("applied", [False, True])
def test_a_lost_reply_at_the_end(applied: bool) -> None:
    driver = started(1, 2)
    move(driver, 3, 2)
    driver.alter_isr("t", 1, 2)
    moves = driver.machine._moves
    finish = moves.look
    moves.look = lambda: None  # type: ignore[method-assign]
    driver.alter_isr("t", 1, 2, 3)
    moves.look = finish  # type: ignore[method-assign]
    driver.disconnect_once(applied=applied)
    driver.read_brokers()
    assert driver.lost_track
    driver.load()
    assert placement(driver) == Placement((3, 2))
    assert summary(driver)[1] == 2
