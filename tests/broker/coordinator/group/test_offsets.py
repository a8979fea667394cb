"""Committed offsets are set and asked for by those who may, and expire (KIP-211)."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.coordinator.group.states import GroupState
from oncelog_protocol.errors import (
    IllegalGenerationError,
    InvalidRequestError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
)
from oncelog_protocol.messages.groups import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from support.group_world import Answer, GroupWorld, subscribed
from support.room_settings import group_settings
from unsafe.coordinators import without

DAY_S = 24 * 3600
RETENTION_S = 7 * DAY_S
CHECK_S = 600
LONG_MS = 1_800_000


def fetch(world: GroupWorld, request: OffsetFetchRequest) -> Answer:
    answer = Answer()
    world.groups.fetch_offsets(request, answer)
    return answer


# ---- commits


def test_what_is_committed_is_told() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    assert player.commit(7, metadata="here").code == 0
    now_ms = world.clock.now_ms()
    world.advance(5)
    request = OffsetFetchRequest("g", [OffsetFetchTopic("t", [1, 0]), OffsetFetchTopic("u", [0])])
    topics = fetch(world, request).value.topics
    unknown, known = topics[0].partitions
    assert (unknown.partition, unknown.offset, unknown.metadata) == (1, -1, None)
    assert (known.offset, known.leader_epoch, known.metadata) == (7, 0, "here")
    assert known.commit_timestamp == now_ms
    assert (topics[1].topic, topics[1].partitions[0].offset) == ("u", -1)
    assert world.offsets() == {("t", 0): 7}


def test_a_simple_group_only_commits() -> None:
    world = GroupWorld()
    assert world.commit_offset(3).code == 0
    group = world.group()
    assert (group.state, group.protocol_type, group.saved) == (GroupState.EMPTY, None, None)
    assert world.commit_offset(5, partition=1).code == 0
    assert world.offsets() == {("t", 0): 3, ("t", 1): 5}


def test_a_group_that_is_unknown_has_committed_nothing() -> None:
    world = GroupWorld()
    assert world.offsets() == {}
    assert not world.shard.groups
    request = OffsetFetchRequest("g", [OffsetFetchTopic("t", [0])])
    assert fetch(world, request).value.topics[0].partitions[0].offset == -1


def test_a_tool_resets_an_empty_group_only() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    assert world.commit_offset(0).code == UnknownMemberIdError.code
    player.leave()
    assert world.commit_offset(0).code == 0


@pytest.mark.parametrize("fields", [{"generation": 0}, {"member_id": "m"}, {"instance": "i"}])
def test_halves_of_a_member_are_nobody(fields: dict[str, Any]) -> None:
    """The name of a member, an instance or a generation does not come from outside."""
    world = GroupWorld()
    assert world.commit_offset(**fields).code == IllegalGenerationError.code
    world.commit_offset()
    assert world.commit_offset(**fields).code == UnknownMemberIdError.code


def test_a_member_of_the_old_generation_commits_before_it_joins_again() -> None:
    world = GroupWorld()
    old, other = world.stable(2)
    other.join(protocols=(("range", subscribed("u")),))
    assert world.group().state is GroupState.PREPARING_REBALANCE
    assert old.commit(4).code == 0
    old.join()
    assert (
        world.commit_offset(5, member_id=old.member_id, generation=1).code
        == IllegalGenerationError.code
    )


def test_commits_are_signs_of_life() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    for _ in range(4):
        world.advance(9)
        assert player.commit().code == 0
    assert player.heartbeat() == 0


def test_metadata_that_is_too_long_is_refused_alone() -> None:
    world = GroupWorld(config=group_settings(offset_metadata_max_bytes=4))
    items = [
        OffsetCommitPartition(0, 1, metadata="1234"),
        OffsetCommitPartition(1, 1, metadata="12345"),
        OffsetCommitPartition(2, 1, metadata="äöü"),
        OffsetCommitPartition(3, 1),
    ]
    answer = Answer()
    request = OffsetCommitRequest("g", -1, "", None, [OffsetCommitTopic("t", items)])
    world.groups.commit(request, answer)
    large = OffsetMetadataTooLargeError.code
    codes = [item.error_code for item in answer.value.topics[0].partitions]
    assert codes == [0, large, large, 0]
    assert world.offsets() == {("t", 0): 1, ("t", 3): 1}


@pytest.mark.parametrize("fields", [{"offset": -1}, {"partition": -1}])
def test_offsets_that_cannot_be_are_refused(fields: dict[str, Any]) -> None:
    world = GroupWorld()
    assert world.commit_offset(**fields).code == InvalidRequestError.code
    assert not world.log


def test_without_the_fence_a_zombie_commits() -> None:
    """The ablation shows what ``fence_generation`` is for."""
    world = GroupWorld(safeguards=without("fence_generation"))
    old, _ = world.stable(2)
    old.leave()
    assert old.commit(1).code == 0


# ---- fetches


def test_members_that_ask_are_fenced() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.commit(2)
    assert world.offsets(member_id=player.member_id, generation=1) == {("t", 0): 2}
    for member_id, generation, error in [
        ("x", 1, UnknownMemberIdError),
        (player.member_id, 2, IllegalGenerationError),
        (player.member_id, 0, IllegalGenerationError),
        (player.member_id, -1, IllegalGenerationError),
        ("", 1, UnknownMemberIdError),
    ]:
        request = OffsetFetchRequest("g", None, True, member_id, generation)
        assert fetch(world, request).code == error.code
    request = OffsetFetchRequest("nobody", None, True, "x", 1)
    assert fetch(world, request).code == UnknownMemberIdError.code


# ---- expiry


def test_a_simple_groups_offsets_expire_each_after_its_last_commit() -> None:
    world = GroupWorld()
    world.commit_offset(1, partition=0)
    world.commit_offset(1, partition=1)
    world.advance(RETENTION_S - DAY_S)
    world.commit_offset(2, partition=1)
    world.advance(DAY_S + CHECK_S)
    assert world.offsets() == {("t", 1): 2}
    world.advance(RETENTION_S)
    assert not world.shard.groups


def test_an_empty_groups_offsets_expire_after_it_became_empty() -> None:
    world = GroupWorld()
    (player,) = world.stable(1, session_ms=LONG_MS)
    player.commit(1)
    for _ in range(20):
        for _ in range(60):
            world.advance(1_440)
            player.heartbeat()
    assert world.offsets() == {("t", 0): 1}, "of a living group nothing expires"
    player.leave()
    world.advance(RETENTION_S - DAY_S)
    world.commit_offset(3, partition=1)
    assert world.offsets() == {("t", 0): 1, ("t", 1): 3}
    world.advance(DAY_S + CHECK_S)
    assert world.offsets() == {("t", 1): 3}, "what a tool has set since lives as long"
    world.advance(RETENTION_S)
    assert not world.shard.groups
    assert world.restarted().shard.groups == {}


def test_topics_that_nobody_is_subscribed_to_any_more_expire() -> None:
    world = GroupWorld()
    (player,) = world.stable(1, session_ms=LONG_MS, protocols=(("range", subscribed("t")),))
    player.commit(1)
    player.commit(1, topic="u")
    for _ in range(9 * 60):
        world.advance(1_440)
        player.heartbeat()
    assert world.offsets() == {("t", 0): 1}


@pytest.mark.parametrize(
    "options",
    [
        {"protocol_type": "connect", "protocols": (("x", b""),)},
        {"protocols": (("range", b"who knows"),)},
    ],
)
def test_a_group_that_cannot_be_looked_into_keeps_all(options: dict[str, Any]) -> None:
    world = GroupWorld()
    (player,) = world.stable(1, session_ms=LONG_MS, **options)
    player.commit(1)
    for _ in range(9 * 60):
        world.advance(1_440)
        player.heartbeat()
    assert world.offsets() == {("t", 0): 1}


def test_an_empty_group_without_offsets_goes_at_once() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.leave()
    world.advance(CHECK_S)
    assert not world.shard.groups
    assert world.restarted().shard.groups == {}


def test_a_refused_expiry_is_tried_again() -> None:
    world = GroupWorld()
    world.commit_offset()
    world.refuse = 15
    world.advance(RETENTION_S + CHECK_S)
    assert world.shard.groups
    world.refuse = 0
    world.advance(CHECK_S)
    assert not world.shard.groups


def test_the_clock_of_an_expiry_survives_the_coordinator() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.commit(1)
    player.leave()
    world.advance(RETENTION_S - 60)
    world = world.restarted()
    assert world.offsets() == {("t", 0): 1}
    world.advance(60 + CHECK_S)
    assert not world.shard.groups
