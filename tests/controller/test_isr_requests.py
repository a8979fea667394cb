"""AlterPartition is checked in order, idempotent, and bound to epochs [Z8] [Z9] [Z10] [K22]."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.errors import ERRORS
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionRequest,
    IsrMember,
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from support.controller_driver import Driver


def cluster() -> Driver:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", [1, 2, 3])
    return driver


def name_of(code: int) -> str:
    return "NONE" if code == 0 else ERRORS[code].name


def test_a_shrink_and_a_growth() -> None:
    driver = cluster()
    driver.requests.clear()
    result = driver.alter_isr("t", 1, 2)
    assert (result.error_code, result.isr, result.partition_epoch) == (0, [1, 2], 1)
    assert (result.leader, result.leader_epoch) == (1, 0), "the leader epoch stays"
    assert driver.state("t").isr == (1, 2)
    assert not any(isinstance(r, LeaderAndIsrRequest) for _, r in driver.requests)
    told = [b for b, r in driver.requests if isinstance(r, UpdateMetadataRequest)]
    assert told == [1, 2, 3, 4]
    assert driver.alter_isr("t", 3, 1, 2).isr == [1, 2, 3], "in the order of the replicas"


def test_an_equal_wish_succeeds_before_the_version_is_checked() -> None:
    driver = cluster()
    driver.alter_isr("t", 1, 2)
    driver.writes.clear()
    result = driver.alter_isr("t", 2, 1, partition_epoch=0)
    assert (result.error_code, result.partition_epoch) == (0, 1)
    assert not driver.writes


def test_a_stale_version_is_told_the_present_state() -> None:
    driver = cluster()
    driver.alter_isr("t", 1, 2)
    result = driver.alter_isr("t", 1, partition_epoch=0)
    assert name_of(result.error_code) == "INVALID_UPDATE_VERSION"
    assert (result.isr, result.partition_epoch) == ([1, 2], 1)


BAD_ITEMS: list[tuple[str, dict[str, Any], str]] = [
    ("an unknown topic", {"topic": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("another topic id", {"topic_id": "x"}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("an older leader epoch", {"leader_epoch": -1}, "FENCED_LEADER_EPOCH"),
    ("a newer leader epoch", {"leader_epoch": 9}, "NOT_CONTROLLER"),
    ("a newer version", {"partition_epoch": 9}, "NOT_CONTROLLER"),
    ("an empty ISR", {"isr": []}, "INVALID_REQUEST"),
    ("without the leader", {"isr": [IsrMember(2, -1)]}, "INVALID_REQUEST"),
    ("a member twice", {"isr": [IsrMember(1, -1), IsrMember(1, -1)]}, "INVALID_REQUEST"),
    ("no replica", {"isr": [IsrMember(1, -1), IsrMember(4, -1)]}, "INVALID_REQUEST"),
    ("unknown broker", {"isr": [IsrMember(1, -1), IsrMember(77, -1)]}, "INVALID_REQUEST"),
    ("an old broker epoch", {"isr": [IsrMember(1, -1), IsrMember(2, 5)]}, "INELIGIBLE_REPLICA"),
]


@pytest.mark.parametrize(("label", "changes", "error"), BAD_ITEMS, ids=[r[0] for r in BAD_ITEMS])
def test_bad_wishes_are_refused(label: str, changes: dict[str, Any], error: str) -> None:
    driver = cluster()
    driver.writes.clear()
    result = driver.alter_isr("t", 1, 2, **changes)
    assert name_of(result.error_code) == error, label
    assert not driver.writes


@pytest.mark.parametrize("partition", [-1, 1, 2**31 - 1])
def test_unknown_partitions(partition: int) -> None:
    driver = cluster()
    item = AlterPartitionItem("t", "id-1-0", partition, 0, 0, [IsrMember(1, -1)])
    request = AlterPartitionRequest(1, driver.brokers[1].broker_epoch, [item])
    result = driver.ask(request).partitions[0]
    assert name_of(result.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_only_the_leader_may_ask() -> None:
    driver = cluster()
    assert name_of(driver.alter_isr("t", 1, 2, asker=2).error_code) == "INVALID_REQUEST"


def test_one_item_does_not_spoil_the_others() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2], [1, 2])
    good = AlterPartitionItem("t", "id-1-0", 1, 0, 0, [IsrMember(1, -1)])
    bad = AlterPartitionItem("t", "id-1-0", 0, 7, 0, [IsrMember(1, -1)])
    request = AlterPartitionRequest(1, driver.brokers[1].broker_epoch, [bad, good, good])
    response = driver.ask(request)
    assert [name_of(r.error_code) for r in response.partitions] == [
        "NOT_CONTROLLER",
        "NONE",
        "INVALID_REQUEST",
    ]
    assert driver.state("t", 1).isr == (1,)


@pytest.mark.parametrize(
    ("step", "error"), [(-1, "STALE_BROKER_EPOCH"), (1, "NOT_CONTROLLER")], ids=["older", "newer"]
)
def test_the_askers_own_epoch(step: int, error: str) -> None:
    driver = cluster()
    epoch = driver.brokers[1].broker_epoch + step
    response = driver.ask(AlterPartitionRequest(1, epoch, []))
    assert name_of(response.error_code) == error


def test_an_asker_that_is_not_registered() -> None:
    response = cluster().ask(AlterPartitionRequest(9, 1, []))
    assert name_of(response.error_code) == "STALE_BROKER_EPOCH"


def test_who_is_suspected_stops_or_is_gone_may_not_join() -> None:
    driver = cluster()
    driver.alter_isr("t", 1, 2)
    driver.suspect(3)
    assert name_of(driver.alter_isr("t", 1, 2, 3).error_code) == "INELIGIBLE_REPLICA"
    driver.clear(3)
    driver.machine.cluster.shutting_down.add(3)
    assert name_of(driver.alter_isr("t", 1, 2, 3).error_code) == "INELIGIBLE_REPLICA"
    driver.machine.cluster.shutting_down.clear()
    epoch = driver.brokers[3].broker_epoch
    driver.lose(3)
    members = [IsrMember(1, -1), IsrMember(2, -1), IsrMember(3, epoch)]
    result = driver.alter_isr("t", 1, 2, isr=members)
    assert name_of(result.error_code) == "INELIGIBLE_REPLICA"
    driver.join(3)
    result = driver.alter_isr("t", 1, 2, isr=members)
    assert name_of(result.error_code) == "INELIGIBLE_REPLICA", "the epoch is of its earlier life"
    assert driver.alter_isr("t", 1, 2, 3).error_code == 0


def test_a_suspect_that_stayed_for_min_isr_does_not_block_other_changes() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3], min_insync_replicas="2")
    driver.alter_isr("t", 1, 2)
    driver.suspect(2)
    assert driver.state("t").isr == (1, 2)
    assert driver.alter_isr("t", 1, 2, 3).error_code == 0


def test_many_partitions_are_written_in_batches() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", *[[1, 2]] * 300)
    driver.writes.clear()
    items = [AlterPartitionItem("t", "id-1-0", p, 0, 0, [IsrMember(1, -1)]) for p in range(300)]
    response = driver.ask(AlterPartitionRequest(1, driver.brokers[1].broker_epoch, items))
    assert len(driver.writes) == 3
    assert all(r.error_code == 0 and r.isr == [1] for r in response.partitions)
