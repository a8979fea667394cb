"""The controller asks the planner for itself, and wants what still is as the planner saw it."""

from __future__ import annotations

from oncelog_controller.automatic_plans import AutomaticPlans
from oncelog_controller.balance.snapshot import BalancePlan, Purpose, Wish
from oncelog_controller.balance.turns import Work
from oncelog_controller.balance_view import Assumptions
from oncelog_protocol.messages import moves
from support.controller_driver import Driver

WITHOUT_ONE = Assumptions(leaving=frozenset({1}))


def with_topic() -> tuple[Driver, AutomaticPlans]:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    return driver, driver.machine._evacuation._making


def done(work: Work[BalancePlan]) -> BalancePlan:
    """Return what comes of work when it has had all its turns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            made: BalancePlan = end.value
            return made


def test_a_plan_is_for_the_cluster_as_it_is_and_what_is_assumed() -> None:
    driver, making = with_topic()
    made = done(making.made(WITHOUT_ONE, Wish(Purpose.EVACUATE)))
    (wish,) = making.wishes(made, WITHOUT_ONE)
    topic_id = driver.machine.cluster.topics["t"].topic_id
    assert (wish.topic, wish.topic_id, wish.partition) == ("t", topic_id, 0)
    assert sorted(wish.target) == [2, 3]
    assert done(making.made(Assumptions(), Wish(Purpose.EVACUATE))).steps == ()


def test_a_partition_that_is_another_one_by_now_is_left_as_it_is() -> None:
    driver, making = with_topic()
    made = done(making.made(WITHOUT_ONE, Wish(Purpose.EVACUATE)))
    driver.ask(
        moves.AlterPartitionReassignmentsRequest([moves.ReassignedPartition("t", 0, [3, 1])])
    )
    driver.pass_time(1)
    assert making.wishes(made, WITHOUT_ONE) == []
