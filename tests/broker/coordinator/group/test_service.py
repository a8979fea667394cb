"""The service: what the engine refuses becomes an answer of each API."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    InvalidCommitOffsetSizeError,
    InvalidGroupIdError,
    NotCoordinatorError,
)
from oncelog_protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from support.group_world import Answer, GroupWorld

ASK: dict[str, Any] = {
    "join": lambda world, group, answer: world.groups.join(
        "c", "h", JoinGroupRequest(group, 10_000, 1_000, "me", None, "consumer", []), answer
    ),
    "sync": lambda world, group, answer: world.groups.sync(
        SyncGroupRequest(group, 1, "me", None, None, None), answer
    ),
    "heartbeat": lambda world, group, answer: world.groups.heartbeat(
        HeartbeatRequest(group, 1, "me", None), answer
    ),
    "leave": lambda world, group, answer: world.groups.leave(LeaveGroupRequest(group, []), answer),
    "commit": lambda world, group, answer: world.groups.commit(
        OffsetCommitRequest(group, 1, "me", None, []), answer
    ),
    "fetch": lambda world, group, answer: world.groups.fetch_offsets(
        OffsetFetchRequest(group, None), answer
    ),
    "delete offsets": lambda world, group, answer: world.groups.delete_offsets(
        OffsetDeleteRequest(group, []), answer
    ),
}


@pytest.mark.parametrize("api", list(ASK))
@pytest.mark.parametrize("code", [NotCoordinatorError.code, CoordinatorLoadInProgressError.code])
def test_a_shard_that_is_not_here(api: str, code: int) -> None:
    world = GroupWorld()
    world.unavailable = code
    answer = Answer()
    ASK[api](world, "g", answer)
    assert answer.code == code


@pytest.mark.parametrize("api", list(ASK))
def test_a_group_needs_a_name(api: str) -> None:
    answer = Answer()
    ASK[api](GroupWorld(), "", answer)
    assert answer.code == InvalidGroupIdError.code


def test_join_names_the_member_that_it_refuses() -> None:
    answer = Answer()
    ASK["join"](GroupWorld(), "g", answer)
    assert answer.value.member_id == "me"


def test_refusals_stand_with_each_group() -> None:
    world = GroupWorld()
    world.unavailable = NotCoordinatorError.code
    described, deleted = Answer(), Answer()
    world.groups.describe(["a", "b"], True, described)
    world.groups.delete(["a", "b"], deleted)
    for answer in (described, deleted):
        assert [(each.group_id, each.error_code) for each in answer.value] == [
            ("a", NotCoordinatorError.code),
            ("b", NotCoordinatorError.code),
        ]


def test_nothing_asked_is_answered_with_nothing() -> None:
    world = GroupWorld()
    described, deleted = Answer(), Answer()
    world.groups.describe([], True, described)
    world.groups.delete([], deleted)
    assert described.value == []
    assert deleted.value == []
    world.groups.topics_deleted({})
    assert not world.log


def test_a_commit_that_no_record_holds_is_refused_partition_by_partition() -> None:
    world = GroupWorld()
    world.refuse = InvalidCommitOffsetSizeError.code
    answer = Answer()
    topics = [
        OffsetCommitTopic("t", [OffsetCommitPartition(0, 1), OffsetCommitPartition(1, 1)]),
        OffsetCommitTopic("u", [OffsetCommitPartition(0, 1)]),
    ]
    world.groups.commit(OffsetCommitRequest("g", -1, "", None, topics), answer)
    assert answer.code == 0
    codes = [[p.error_code for p in topic.partitions] for topic in answer.value.topics]
    assert codes == [[InvalidCommitOffsetSizeError.code] * 2, [InvalidCommitOffsetSizeError.code]]


def test_answers_about_several_groups_come_together() -> None:
    world = GroupWorld()
    world.commit_offset(group="a")
    world.commit_offset(group="b")
    world.hold = True
    answer = Answer()
    world.groups.delete(["a", "nobody", "b"], answer)
    assert answer.waits
    world.commit()
    assert [result.group_id for result in answer.value] == ["a", "nobody", "b"]


def test_listing_while_some_are_loaded() -> None:
    world = GroupWorld()
    world.commit_offset(group="a")
    world.loading = True
    answer = world.groups.list_groups([])
    assert answer.error_code == CoordinatorLoadInProgressError.code
    assert [group.group_id for group in answer.groups] == ["a"]
