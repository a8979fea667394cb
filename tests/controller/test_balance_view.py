"""The planner sees brokers as they stand, and bytes as far as they were reported."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_controller.balance.snapshot import (
    BalanceSnapshot,
    DiskFigures,
    PlannedPartition,
    Standing,
)
from oncelog_controller.balance.turns import finish
from oncelog_controller.balance_view import AS_IT_IS, Assumptions, view_of_cluster
from oncelog_controller.move_nodes import MoveWish, PlanHead
from oncelog_controller.move_plans import WantedMove
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.messages import admin, moves
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    BrokerReportRequest,
    ReportedDirectory,
    ReportedTopic,
)
from oncelog_protocol.messages.broker_states import (
    DECOMMISSIONING,
    DRAINING,
    AlterBrokerStatesRequest,
)
from oncelog_protocol.types import TopicPartition
from support.controller_driver import Driver
from support.room_settings import controller_settings

NOTHING: Mapping[TopicPartition, WantedMove] = {}
SETTINGS = controller_settings(balance_disk_high_percent=70, balance_tolerance_percent=5)


def seen(
    driver: Driver,
    wanted: Mapping[TopicPartition, WantedMove] = NOTHING,
    assumed: Assumptions = AS_IT_IS,
) -> BalanceSnapshot:
    machine = driver.machine
    view = view_of_cluster(machine.cluster, wanted, machine.reports, SETTINGS, assumed)
    return finish(view)


def test_brokers_stand_as_they_are() -> None:
    driver = Driver.started(1, 2, 3, 4, 5)
    driver.create("t", [1, 2, 3], [4, 5, 1])
    driver.ask(AlterBrokerStatesRequest(2, DRAINING))
    driver.create("u", [1])
    driver.suspect(3)
    driver.lose(4)
    driver.ask(AlterBrokerStatesRequest(5, DECOMMISSIONING))
    cluster = driver.machine.cluster
    found = {b: AS_IT_IS.standing(cluster, b) for b in range(1, 6)}
    assert found[1] is Standing.ACTIVE
    assert found[2] is found[3] is found[4] is Standing.HELD
    assert Assumptions(away_is_dead=True).standing(cluster, 4) is Standing.DEAD
    given = Assumptions(dead=frozenset({3, 4}), leaving=frozenset({1}))
    assert [given.standing(cluster, b) for b in (1, 3, 4)] == [
        Standing.LEAVING,
        Standing.HELD,
        Standing.DEAD,
    ], "who is there is not dead"
    view = seen(driver, assumed=Assumptions(away_is_dead=True))
    assert [broker.broker_id for broker in view.brokers] == [1, 2, 3, 4, 5], "also who is away"
    assert (view.disk_high_percent, view.tolerance_percent) == (70, 5)


def test_a_partition_is_seen_with_what_its_leader_reported() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2], [2, 1])
    topic_id = driver.machine.cluster.topics["t"].topic_id
    replicas = ReportedTopic(topic_id, [0], [70], [3], [9], [0])
    disks = [
        ReportedDirectory("/a", 100, 40, True),
        ReportedDirectory("/b", -1, -1, False),
    ]
    epoch = driver.brokers[1].broker_epoch
    driver.ask(BrokerReportRequest(1, epoch, 1, ANEW, True, disks, [replicas]))
    view = seen(driver)
    assert list(view.partitions) == [
        PlannedPartition("t", 0, (1, 2), 1, (1, 2), bytes=70, bytes_per_s=3),
        PlannedPartition("t", 1, (2, 1), 2, (2, 1)),
    ]
    assert [list(broker.disks) for broker in view.brokers] == [[DiskFigures(100, 40)], []]


def test_a_partition_that_moves_is_seen_where_it_will_be() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    wish = moves.ReassignedPartition("t", 0, [1, 3])
    driver.ask(moves.AlterPartitionReassignmentsRequest([wish]))
    (view,) = seen(driver).partitions
    assert (view.replicas, view.target, view.settled) == ((1, 2, 3), (1, 3), (1, 3))


def test_a_partition_that_is_to_move_counts_as_one_that_moves() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    head = PlanHead("1-1", "", "", 0)
    wanted = WantedMove(head, MoveWish("t", "id", 0, (2, 3)))
    (view,) = seen(driver, {TopicPartition("t", 0): wanted}).partitions
    assert (view.replicas, view.target) == ((1, 2), (2, 3))


def test_a_move_to_a_broker_that_leaves_may_get_another_target_if_that_is_said() -> None:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", [1, 2], [1, 2])
    wishes = [moves.ReassignedPartition("t", 0, [1, 3])]
    driver.ask(moves.AlterPartitionReassignmentsRequest(wishes))
    head = PlanHead("1-1", "", "", 0)
    queued = {TopicPartition("t", 1): WantedMove(head, MoveWish("t", "id", 1, (1, 3)))}
    given = Assumptions(leaving=frozenset({3}))
    assert {view.target for view in seen(driver, queued, given).partitions} == {(1, 3)}
    given = Assumptions(leaving=frozenset({3}), overruling=True)
    found = [(view.replicas, view.target) for view in seen(driver, queued, given).partitions]
    assert found == [((1, 3), ()), ((1, 2), ())], "what has begun is seen where it will be"


def test_the_own_topics_should_have_their_replicas_when_there_are_brokers() -> None:
    driver = Driver.started(1, 2, 3)
    new = admin.CreatableTopic(GROUP_TOPIC, -1, -1, [[1]])
    driver.ask(admin.CreateTopicsRequest([new], 1000), internal=True)
    driver.create("t", [1])
    factors = {view.topic: view.factor for view in seen(driver).partitions}
    assert factors == {GROUP_TOPIC: 3, "t": 0}
    leaving = Assumptions(leaving=frozenset({3}))
    assert {view.factor for view in seen(driver, assumed=leaving).partitions} == {0}
    head, wide = PlanHead("1-1", "", "", 0), MoveWish(GROUP_TOPIC, "id", 0, (1, 2, 3, 4))
    moving = {TopicPartition(GROUP_TOPIC, 0): WantedMove(head, wide)}
    assert {view.factor for view in seen(driver, moving).partitions} == {4, 0}, "no fewer"
    driver.lose(3)
    assert {view.factor for view in seen(driver).partitions} == {0}
