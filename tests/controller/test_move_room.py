"""A copy for which a disk has no room is found before it begins, as far as brokers told."""

from __future__ import annotations

from oncelog_controller.state import Placement
from oncelog_protocol.errors import NO_ERROR, PolicyViolationError
from oncelog_protocol.messages import moves as wire
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    BrokerReportRequest,
    ReportedDirectory,
    ReportedTopic,
)
from support.controller_driver import Driver
from support.room_settings import controller_settings

OFFLINE = ReportedDirectory("/offline", -1, -1, False)


def report(driver: Driver, broker_id: int, *disks: int | ReportedDirectory, **sizes: int) -> None:
    """Have a broker tell how much room its directories have, and how large replicas of topic t
    are: ``p0=5``."""
    told = [
        disk if isinstance(disk, ReportedDirectory) else ReportedDirectory("/d", 1000, disk, True)
        for disk in disks
    ]
    topic_id = driver.machine.cluster.topics["t"].topic_id
    none = [0] * len(sizes)
    indexes = [int(name[1:]) for name in sizes]
    topic = ReportedTopic(topic_id, indexes, list(sizes.values()), none, none, none)
    epoch = driver.brokers[broker_id].broker_epoch
    response = driver.ask(
        BrokerReportRequest(broker_id, epoch, 1, ANEW, True, told, [topic] if sizes else [])
    )
    assert response.error_code == NO_ERROR


def started(partitions: int = 3) -> Driver:
    driver = Driver.started(1, 2, 3, config=controller_settings(move_concurrent_per_broker=1))
    driver.create("t", *[[1]] * partitions)
    report(driver, 1, 0, p0=100, p1=200, p2=300)
    return driver


def move(driver: Driver, *indexes: int, to: int = 2) -> dict[int, str]:
    """Ask for moves; return the messages of those that are refused."""
    items = [wire.ReassignedPartition("t", index, [to]) for index in indexes]
    response = driver.ask(wire.AlterPartitionReassignmentsRequest(items))
    refused = [item for item in response.items if item.error_code]
    assert all(item.error_code == PolicyViolationError.code for item in refused)
    return {item.partition: item.error_message for item in refused}


def reasons(driver: Driver) -> dict[int, tuple[str, str]]:
    response = driver.ask(wire.ListPartitionReassignmentsRequest())
    return {each.partition: (each.phase, each.reason) for each in response.partitions}


def test_what_does_not_fit_is_refused_before_it_begins_and_the_rest_moves() -> None:
    driver = started()
    report(driver, 2, 250)
    assert move(driver, 0, 1, 2) == {
        1: "t-1 has 200 bytes, and the disks of broker 2 have room for 150 beside what else moves "
        "there: name another broker, or make room there",
        2: "t-2 has 300 bytes, and the disks of broker 2 have room for 150 beside what else moves "
        "there: name another broker, or make room there",
    }
    assert driver.state("t", 0).placement == Placement((1, 2), (1,), (2,), (), "1-1")
    assert driver.state("t", 2).placement == Placement((1,))


def test_what_moves_and_what_waits_for_its_turn_have_their_room_already() -> None:
    driver = started()
    report(driver, 2, 599)
    assert not move(driver, 0)
    assert not move(driver, 1)
    assert reasons(driver)[1] == (wire.QUEUED, "waits for its turn")
    assert move(driver, 2)
    report(driver, 2, 501, p0=99)
    assert not move(driver, 2), "99 bytes have come, and take room already"


def test_another_target_gives_room_back() -> None:
    driver = started()
    report(driver, 2, 300)
    assert not move(driver, 0, 1)
    assert move(driver, 2)
    assert not move(driver, 0, to=3)
    assert move(driver, 2)
    assert not move(driver, 1, to=3)
    assert not move(driver, 2)


def test_one_directory_has_to_hold_a_replica() -> None:
    driver = started()
    report(driver, 2, 150, 160, OFFLINE)
    assert move(driver, 1)
    assert not move(driver, 0)


def test_what_is_not_known_refuses_nothing() -> None:
    driver = started()
    assert not move(driver, 2), "broker 2 has told nothing"
    report(driver, 3, OFFLINE)
    assert not move(driver, 1, to=3)
    driver = started(4)
    report(driver, 2, 0)
    assert not move(driver, 3), "its size is not known"


def test_a_plan_that_was_taken_waits_until_there_is_room() -> None:
    driver = started()
    assert not move(driver, 0, 1)
    driver.alter_isr("t", 1, 2, partition=0)
    assert not driver.partition("t", 0).placement.origin
    report(driver, 2, 20)
    driver.alter_isr("t", 1, 2, partition=1)
    assert not driver.partition("t", 1).placement.origin, "what has begun goes on"
    report(driver, 3, 1000)
    assert not move(driver, 2, to=3)


def test_a_wish_that_has_not_begun_looks_at_the_disk_as_it_is_then() -> None:
    driver = started()
    report(driver, 2, 300)
    assert not move(driver, 0, 1)
    report(driver, 2, 150)
    driver.alter_isr("t", 1, 2, partition=0)
    phase, reason = reasons(driver)[1]
    assert phase == wire.QUEUED
    assert reason == (
        "t-1 has 200 bytes, and the disks of broker 2 have room for 150 beside what else moves "
        "there"
    )
    report(driver, 2, 900)
    driver.pass_time(11)
    assert reasons(driver)[1] == (wire.COPYING, "")
