"""Topics are deleted for good, and deletions that cannot be are refused."""

from __future__ import annotations

import pytest

from oncelog_controller import znodes
from oncelog_controller.store import Create
from oncelog_protocol.errors import ERRORS, StorageError
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import StopReplicaRequest, UpdateMetadataRequest
from support.controller_driver import Driver


def delete(driver: Driver, *topics: str) -> list[str]:
    response = driver.ask(admin.DeleteTopicsRequest(list(topics), 1000))
    codes = [result.error_code for result in response.topics]
    return ["NONE" if code == 0 else ERRORS[code].name for code in codes]


def stops(driver: Driver) -> list[tuple[int, str, int]]:
    return [
        (broker_id, stop.topic_id, stop.partition)
        for broker_id, request in driver.requests
        if isinstance(request, StopReplicaRequest)
        for stop in request.partitions
    ]


def left(driver: Driver, topic: str) -> list[str]:
    return [path for path in sorted(driver.nodes) if topic in path.split("/")[-1].split(".")]


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2], [2, 1])
    driver.requests.clear()
    assert delete(driver, "t") == ["NONE"]
    assert stops(driver) == [(b, "id-1-0", p) for b in (1, 2) for p in (0, 1)]
    updates = [r for _, r in driver.requests if isinstance(r, UpdateMetadataRequest)]
    assert [p.leader for p in updates[0].partitions] == [-2, -2]
    assert left(driver, "t") == []
    assert not driver.machine.cluster.tombstones
    stop = next(r for _, r in driver.requests if isinstance(r, StopReplicaRequest)).partitions[0]
    assert (stop.delete, stop.leader_epoch) == (True, -2)


def test_its_name_is_free_at_once() -> None:
    driver = Driver.started(1)
    driver.create("t", [1])
    delete(driver, "t")
    assert driver.create("t", [1]).topic_id == "id-3-0"
    assert driver.state("t").leader_epoch == 0


def test_a_broker_that_was_down_deletes_when_it_is_back() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.lose(2)
    delete(driver, "t")
    tombstone = znodes.tombstone_path("t", "id-1-0")
    assert tombstone in driver.nodes
    driver.requests.clear()
    driver.join(2)
    assert stops(driver) == [(2, "id-1-0", 0)]
    assert tombstone not in driver.nodes


def test_the_next_controller_sees_it_through() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.lose(2)
    delete(driver, "t")
    driver.create("t", [1])  # the same name, made anew meanwhile
    heir = driver.take_over()
    assert heir.partition("t").topic.topic_id == "id-3-0"
    heir.requests.clear()
    heir.join(2)
    assert stops(heir) == [(2, "id-1-0", 0)]
    assert not heir.machine.cluster.tombstones


def test_two_deletions_of_one_name_are_kept_apart() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.lose(2)
    delete(driver, "t")
    driver.join(2)
    driver.create("t", [1, 2])
    driver.lose(2)
    delete(driver, "t")
    assert sorted(driver.machine.cluster.tombstones) == ["id-3-0"]
    driver.join(2)
    assert not driver.machine.cluster.tombstones


def test_a_large_topic_has_its_tombstone_first() -> None:
    driver = Driver.started(1)
    driver.create("t", *[[1]] * 400)
    driver.writes.clear()
    delete(driver, "t")
    assert len(driver.writes[0]) == 2, "the epoch check and the tombstone"
    assert left(driver, "t") == []


@pytest.mark.parametrize("removed", [0, 150, 400])
def test_a_deletion_that_was_cut_off_is_finished(removed: int) -> None:
    driver = Driver.started(1)
    driver.create("t", *[[1]] * 400)
    data = znodes.encode_tombstone("t", "id-1-0", [[1]] * 400)
    driver._apply([Create(znodes.tombstone_path("t", "id-1-0"), data)])
    for index in range(removed):
        del driver.nodes[znodes.state_path("t", index)]
        del driver.nodes[znodes.partition_path("t", index)]
    heir = driver.take_over()
    assert left(heir, "t") == []
    assert "t" not in heir.machine.cluster.topics
    assert len(stops(heir)) == 400


def test_an_unclear_deletion_is_found_out_by_reading() -> None:
    for applied in (True, False):
        driver = Driver.started(1)
        driver.create("t", [1])
        driver.disconnect_once(applied=applied)
        driver.ask(admin.DeleteTopicsRequest(["t"], 1000))
        driver.load()
        assert ("t" in driver.machine.cluster.topics) is not applied
        (code,) = [r.topics[0].error_code for i, r in driver.replies.items() if i == 2]
        assert ERRORS[code].name == "REQUEST_TIMED_OUT"


def test_a_replica_that_cannot_be_deleted_is_tried_again_after_a_restart() -> None:
    driver = Driver.started(1, auto_ack=False)
    driver.create("t", [1])
    driver.requests.clear()
    delete(driver, "t")
    request = next(r for _, r in driver.requests if isinstance(r, StopReplicaRequest))
    driver.handle(driver.answer(1, request, StorageError.code))
    driver.handle(driver.answer(1, request, StorageError.code))
    assert driver.machine.cluster.tombstones
    driver.requests.clear()
    driver.join(1)
    assert stops(driver) == [(1, "id-1-0", 0)]
    request = next(r for _, r in driver.requests if isinstance(r, StopReplicaRequest))
    driver.handle(driver.answer(1, request))
    assert not driver.machine.cluster.tombstones
    driver.handle(driver.answer(1, request))  # a repeated answer changes nothing


def test_while_replicas_are_to_be_deleted_a_creation_of_that_name_stops_the_old_ones_first() -> (
    None
):
    driver = Driver.started(1, 2)
    driver.create("t", [2, 1])
    driver.lose(2)
    delete(driver, "t")
    driver.create("t", [1])
    driver.requests.clear()
    driver.join(2)
    kinds = [type(r).__name__ for b, r in driver.requests if b == 2]
    assert sorted(kinds) == ["LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest"]


# ---------------------------------------------------------------- what is refused

LINE_103 = [
    ("not there", "nope", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("being deleted", "gone", "UNKNOWN_TOPIC_OR_PARTITION"),
    ("an empty name", "", "INVALID_TOPIC"),
    ("a path", "../t", "INVALID_TOPIC"),
    ("a long name", "a" * 10**6, "INVALID_TOPIC"),
    ("the cluster's own", "__consumer_offsets", "INVALID_TOPIC"),
]


@pytest.mark.parametrize(("label", "topic", "error"), LINE_103, ids=[row[0] for row in LINE_103])
def test_bad_deletions_are_refused(label: str, topic: str, error: str) -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1])
    driver.create("gone", [1, 2])
    driver.lose(2)
    delete(driver, "gone")
    driver.writes.clear()
    assert delete(driver, topic) == [error], label
    assert not driver.writes
    assert delete(driver, "t") == ["NONE"]


def test_a_topic_named_twice_is_not_deleted() -> None:
    driver = Driver.started(1)
    driver.create("t", [1])
    assert delete(driver, "t", "t") == ["INVALID_REQUEST"] * 2
    assert "t" in driver.machine.cluster.topics
