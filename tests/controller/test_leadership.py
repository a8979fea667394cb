"""Controlled shutdown and elections on request write what they should."""

from __future__ import annotations

from oncelog_controller import znodes
from oncelog_controller.leadership import state_ops
from oncelog_controller.state import ClusterPartition, PartitionState, Topic
from oncelog_controller.store import Create, SetData
from oncelog_protocol.errors import ERRORS
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import ControlledShutdownRequest
from oncelog_protocol.topic_config import parse_topic_config
from support.controller_driver import Driver


def shut_down(driver: Driver, broker_id: int, epoch: int | None = None) -> tuple[int, int]:
    broker = driver.brokers[broker_id].broker_epoch if epoch is None else epoch
    response = driver.ask(ControlledShutdownRequest(broker_id, broker))
    return response.error_code, response.remaining


def elect(driver: Driver, *targets: int, unclean: bool = False, topic: str = "t") -> list[str]:
    wanted = [admin.ElectionTarget(topic, target) for target in targets]
    response = driver.ask(admin.ElectLeadersRequest(unclean, wanted))
    codes = [result.error_code for result in response.partitions]
    return ["NONE" if code == 0 else ERRORS[code].name for code in codes]


# ---------------------------------------------------------------- controlled shutdown


def test_a_broker_that_stops_hands_over_and_leaves_the_isr() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3], [2, 1, 3])
    assert shut_down(driver, 1) == (0, 0)
    assert driver.state("t", 0).leader == 3, "2 leads one already"
    assert driver.state("t", 1).leader == 2
    assert [driver.state("t", p).isr for p in (0, 1)] == [(2, 3), (2, 3)]
    driver.lose(1)
    assert driver.state("t", 0).leader_epoch == 1, "nothing is left to do when it goes"
    driver.join(1)
    assert driver.alter_isr("t", 1, 2, 3).error_code == 0
    driver.pass_time(2)
    assert driver.state("t", 0).leader == 1


def test_what_cannot_move_is_counted() -> None:
    driver = Driver.started(1, 2)
    driver.create("single", [1])
    driver.create("t", [1, 2])
    driver.alter_isr("t", 1)
    assert shut_down(driver, 1) == (0, 1), "a single replica has nowhere to go, and is not counted"
    assert driver.state("t").leader == 1
    assert driver.alter_isr("t", 1, 2).error_code == 0
    assert shut_down(driver, 1) == (0, 0)


def test_a_stopping_broker_gets_no_leadership() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [2, 1, 3])
    shut_down(driver, 1)
    driver.lose(2)
    assert driver.state("t").leader == 3


def test_an_earlier_life_cannot_shut_down_this_one() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    code, _ = shut_down(driver, 1, driver.brokers[1].broker_epoch - 1)
    assert ERRORS[code].name == "STALE_BROKER_EPOCH"
    assert driver.state("t").leader == 1


def test_all_stop_one_after_another() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    assert shut_down(driver, 1) == (0, 0)
    assert shut_down(driver, 2) == (0, 0)
    assert shut_down(driver, 3) == (0, 1)
    assert driver.state("t").isr == (3,)
    driver.lose(1, 2, 3)
    assert (driver.state("t").leader, driver.state("t").isr) == (-1, (3,))


# ---------------------------------------------------------------- elections on request


def test_preferred_elections() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3], [2, 1, 3], [1, 2, 3])
    driver.suspect(1)
    driver.clear(1)
    assert elect(driver, 0) == ["ELIGIBLE_LEADERS_NOT_AVAILABLE"], "not in sync yet"
    driver.alter_isr("t", 1, 2, 3)
    assert elect(driver, 0, 1, 9, 0) == [
        "NONE",
        "ELECTION_NOT_NEEDED",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "ELECTION_NOT_NEEDED",
    ]
    assert driver.state("t", 0).leader == 1


def test_an_election_for_all_tells_only_of_those_that_were_needed() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2], [2, 1])
    driver.suspect(1)
    driver.clear(1)
    driver.alter_isr("t", 1, 2)
    response = driver.ask(admin.ElectLeadersRequest(False, None))
    assert [(r.partition, r.error_code) for r in response.partitions] == [(0, 0)]
    assert driver.state("t").leader == 1


def test_unclean_elections() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2], [1, 3], [3, 1])
    driver.alter_isr("t", 3, partition=2)
    driver.lose(2)
    driver.join(2)
    driver.lose(1)
    driver.lose(3)
    assert driver.state("t", 0).leader == -1
    assert elect(driver, 0, 1, 2, unclean=True) == [
        "NONE",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE",
    ]
    assert (driver.state("t", 0).leader, driver.state("t", 0).isr) == (2, (2,))
    assert elect(driver, 0, unclean=True) == ["ELECTION_NOT_NEEDED"]
    assert driver.machine._core.stats.unclean_elections == 1
    driver.join(1)
    driver.alter_isr("t", 1, 2)
    assert driver.machine._core.stats.unclean_elections == 1, "only its ISR is another one"


def test_unclean_elections_happen_by_themselves_only_where_allowed() -> None:
    driver = Driver.started(1, 2)
    driver.create("safe", [1, 2])
    driver.create("loose", [1, 2], unclean_leader_election_enable="true")
    driver.lose(2)
    driver.join(2)
    driver.lose(1)
    assert driver.state("safe").leader == -1
    assert (driver.state("loose").leader, driver.state("loose").isr) == (2, (2,))


# ---------------------------------------------------------------- writes


def test_a_new_state_creates_and_a_later_one_sets_by_version() -> None:
    topic = Topic("t", "id", parse_topic_config({}))
    partition = ClusterPartition(topic, 3, (1,))
    state = PartitionState(1, 0, (1,), 1, 0)
    created = state_ops(partition, state)
    assert [type(op) for op in created] == [Create, Create]
    partition.state = PartitionState(1, 4, (1,), 1, 9)
    (op,) = state_ops(partition, state)
    assert isinstance(op, SetData)
    assert (op.path, op.version) == (znodes.state_path("t", 3), 9)
