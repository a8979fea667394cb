"""A shard replays, is loaded and unloaded, and acts on groups as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack
import pytest

from oncelog_broker.coordinator.group import shard as shard_module
from oncelog_broker.coordinator.group.records import (
    DepartedFact,
    GroupFact,
    OffsetRecord,
    decode_record,
    group_record,
    offset_record,
)
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    NotCoordinatorError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.groups import (
    DescribedGroup,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from oncelog_protocol.types import TopicPartition
from support.group_world import Answer, GroupWorld, durable, subscribed
from support.room_settings import group_settings


def delete(world: GroupWorld, *groups: str) -> list[int]:
    answer = Answer()
    world.groups.delete(groups or ("g",), answer)
    return [result.error_code for result in answer.value]


def delete_offsets(world: GroupWorld, *topics: tuple[str, Sequence[int]]) -> Answer:
    answer = Answer()
    asked = [OffsetFetchTopic(topic, list(partitions)) for topic, partitions in topics]
    world.groups.delete_offsets(OffsetDeleteRequest("g", asked), answer)
    return answer


def codes(answer: Answer) -> list[list[int]]:
    return [[p.error_code for p in topic.partitions] for topic in answer.value.topics]


def describe(world: GroupWorld, group: str = "g", offsets: bool = True) -> DescribedGroup:
    answer = Answer()
    world.groups.describe([group], offsets, answer)
    described: DescribedGroup = answer.value[0]
    return described


# ---- load and unload


def test_members_stay_members_after_a_failover() -> None:
    world = GroupWorld()
    players = world.stable(2, instances=["a", None])
    players[0].commit(9)
    world = world.restarted()
    for player in players:
        player.world = world
        assert player.heartbeat() == 0
        assert player.synced().assignment == player.member_id.encode()
    assert world.offsets() == {("t", 0): 9}
    assert players[1].commit(10).code == 0
    described = describe(world)
    assert (described.state, described.protocol_name, described.leader) == (
        "Stable",
        "range",
        players[0].member_id,
    )
    assert described.members[0].metadata == subscribed("t")


def test_sessions_begin_anew_at_load() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    world.advance(9)
    world = player.world = world.restarted()
    world.advance(9.9)
    assert player.heartbeat() == 0
    world.advance(10.1)
    assert world.group().state is GroupState.EMPTY


def test_a_round_that_the_old_coordinator_did_not_finish_is_begun_again() -> None:
    world = GroupWorld()
    a, b = world.stable(2)
    a.join()
    b.join()
    assert (a.take_in_join().generation_id, b.take_in_join().generation_id) == (2, 2)
    world = a.world = b.world = world.restarted()
    assert a.heartbeat() == IllegalGenerationError.code
    assert a.sync().code == IllegalGenerationError.code
    a.join(), b.join()
    assert a.take_in_join().generation_id == 2


def test_whoever_waits_is_told_when_the_shard_is_unloaded() -> None:
    world = GroupWorld()
    joining = world.join(world.new_id())
    leader, follower = world.player(group="h"), world.player(group="h")
    world.advance(0.4)
    world.shard.unload(NotCoordinatorError.code)
    assert {joining.code, leader.joining.code, follower.joining.code} == {NotCoordinatorError.code}

    world = GroupWorld()
    leader, follower = world.player(), world.player()
    world.advance(1)
    leader.take_in_join(), follower.take_in_join()
    parked = follower.sync()
    world.hold = True
    saving = leader.sync()
    world.shard.unload(NotCoordinatorError.code)
    assert parked.code == saving.code == NotCoordinatorError.code
    world.commit()
    world.advance(1_000)


def test_tombstones_and_all_in_order() -> None:
    """It is KAFKA-5600: the last word counts."""
    tp = TopicPartition("t", 0)
    old, new = OffsetRecord(1, 0, "", 5), OffsetRecord(2, 0, "", 6)
    log = [
        offset_record("g", tp, old),
        offset_record("g", tp, None),
        offset_record("h", tp, old),
        offset_record("h", tp, None),
        offset_record("h", tp, new),
        offset_record("i", tp, None),
        group_record("i", None),
    ]
    world = GroupWorld(log=log)
    assert list(world.shard.groups) == ["h"]
    assert world.offsets(group="h") == {("t", 0): 2}


def test_what_cannot_be_read_is_left_alone() -> None:
    tp = TopicPartition("t", 0)
    log = [
        CoordinatorRecord(b"\xc1", b"?"),
        CoordinatorRecord(msgpack.packb([99, "of a newer release"]), b"?"),
        offset_record("g", tp, OffsetRecord(1, 0, "", 5)),
    ]
    assert GroupWorld(log=log).offsets() == {("t", 0): 1}


def test_a_refused_request_leaves_everything_as_it_was() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.commit(1)
    before, count = durable(world.shard), len(world.log)
    world.refuse = CoordinatorNotAvailableError.code
    assert player.commit(2).code == CoordinatorNotAvailableError.code
    assert delete_offsets(world, ("x", [0])).code == 0
    assert durable(world.shard) == before
    assert len(world.log) == count


def test_expiry_of_a_first_round_that_nobody_finished() -> None:
    """A pending id is waited for, the members die meanwhile: the group is empty, and durable."""
    world = GroupWorld()
    world.stable(1)
    world.new_id(session_ms=40_000)
    log = list(world.log)
    world.advance(60)
    group = world.group()
    assert group.state is GroupState.EMPTY
    departed, generation, taken_back = map(decode_record, world.log[len(log) :])
    assert isinstance(departed, DepartedFact)
    assert isinstance(generation, GroupFact)
    assert taken_back == departed._replace(generation=None)
    assert group.saved is not None
    assert group.saved.generation == group.generation


def test_a_group_that_ends_before_it_was_ever_saved_keeps_its_generation() -> None:
    world = GroupWorld()
    player = world.player()
    world.advance(0.6)
    player.take_in_join()
    world.new_id(session_ms=5_000)
    player.join(protocols=(("range", subscribed("u")),))
    player.leave()
    assert world.group().state is GroupState.PREPARING_REBALANCE
    world.advance(5)
    group = world.group()
    assert group.saved is not None
    assert group.saved.generation == group.generation == 2


# ---- broken invariants


def test_a_group_that_cannot_be_goes_on_from_what_is_durable() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.commit(3)
    world.expects_sound = False
    joining = world.join(world.new_id())
    world.group().static["nobody"] = "x"
    assert player.join().code == CoordinatorNotAvailableError.code
    assert joining.code == CoordinatorNotAvailableError.code
    assert world.shard.broken is not None
    world.shard.broken = None
    world.expects_sound = True
    assert world.group().state is GroupState.STABLE
    assert player.heartbeat() == 0
    assert world.offsets() == {("t", 0): 3}
    player.join()
    assert player.take_in_join().generation_id == 2


def test_assignments_in_a_group_that_cannot_be_are_not_given() -> None:
    world = GroupWorld()
    player = world.player()
    world.advance(1)
    player.take_in_join()
    world.expects_sound = False
    world.group().static["nobody"] = "x"
    assert player.sync().code == CoordinatorNotAvailableError.code
    world.shard.broken = None
    world.expects_sound = True
    assert player.synced().assignment == player.member_id.encode()


# ---- describing, listing


def test_describing() -> None:
    world = GroupWorld()
    (player,) = world.stable(1, instances=["i"], client="billing")
    player.commit(5, metadata="x")
    now_ms = world.clock.now_ms()
    described = describe(world)
    (member,) = described.members
    assert (member.client_id, member.client_host, member.group_instance_id) == (
        "billing",
        "10.0.0.1",
        "i",
    )
    assert member.assignment == player.member_id.encode()
    (offset,) = described.offsets
    assert (offset.topic, offset.partition, offset.offset, offset.metadata) == ("t", 0, 5, "x")
    assert (offset.commit_timestamp, offset.end_offset, offset.lag) == (now_ms, -1, -1)
    assert describe(world, offsets=False).offsets == []
    player.join()
    player.take_in_join()
    described = describe(world)
    assert described.state == "CompletingRebalance"
    assert described.generation_id == 2
    assert (described.protocol_name, described.members[0].metadata) == ("", b"")


def test_describing_nothing() -> None:
    world = GroupWorld()
    described = describe(world)
    assert (described.error_code, described.state) == (GroupIdNotFoundError.code, "Dead")
    assert describe(world, "").error_code == InvalidGroupIdError.code


def test_listing() -> None:
    world = GroupWorld()
    world.stable(2, group="b")
    world.commit_offset(group="a")
    listed = world.groups.list_groups([]).groups
    assert [(g.group_id, g.protocol_type, g.state, g.member_count) for g in listed] == [
        ("a", "", "Empty", 0),
        ("b", "consumer", "Stable", 2),
    ]
    assert [g.group_id for g in world.groups.list_groups(["Stable"]).groups] == ["b"]
    assert world.groups.list_groups(["Nowhere"]).groups == []


# ---- deleting


def test_deleting_a_group() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.commit(1)
    assert delete(world) == [NonEmptyGroupError.code]
    player.leave()
    assert delete(world, "g", "x", "") == [0, GroupIdNotFoundError.code, InvalidGroupIdError.code]
    assert not world.shard.groups
    world = world.restarted()
    assert not world.shard.groups
    world.stable(1)
    assert world.group().generation == 1, "it begins anew"


def test_deleting_a_group_in_which_ids_were_handed_out() -> None:
    world = GroupWorld()
    member_id = world.new_id()
    assert delete(world) == [0]
    assert not world.shard.groups
    assert world.join(member_id).code == UnknownMemberIdError.code
    world.commit_offset()
    member_id = world.new_id()
    assert delete(world) == [0]
    assert world.join(member_id).code == UnknownMemberIdError.code


def test_a_refused_deletion_deletes_nothing() -> None:
    world = GroupWorld()
    world.commit_offset()
    world.refuse = CoordinatorNotAvailableError.code
    assert delete(world) == [CoordinatorNotAvailableError.code]
    assert world.offsets() == {("t", 0): 1}


def test_deleting_more_than_one_batch_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "RECORDS_BYTES_MAX", 40)
    world = GroupWorld()
    (player,) = world.stable(1)
    for partition in range(50):
        player.commit(1, partition=partition)
    player.leave()
    assert delete(world) == [0]
    assert not world.shard.groups
    assert world.restarted().shard.groups == {}


def test_expiring_more_than_one_batch_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "RECORDS_BYTES_MAX", 40)
    monkeypatch.setattr(shard_module, "EXPIRY_OFFSETS_COUNT", 5)
    config = group_settings(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=10_000)
    world = GroupWorld(config=config)
    for number in range(5):
        for partition in range(10):
            world.commit_offset(1, group=f"g{number}", partition=partition)
    world.advance(10)
    assert not world.shard.groups


# ---- deleting offsets


def test_deleting_offsets() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.commit(1)
    player.commit(1, topic="u")
    subscribed_to, unknown = GroupSubscribedToTopicError.code, UnknownTopicOrPartitionError.code
    answer = delete_offsets(world, ("t", [0]), ("u", [0, 1]), ("v", [0]))
    assert codes(answer) == [[subscribed_to], [0, unknown], [unknown]]
    assert world.offsets() == {("t", 0): 1}
    player.leave()
    assert codes(delete_offsets(world, ("t", [0]))) == [[0]]
    assert world.restarted().offsets() == {}


def test_deleting_offsets_of_groups_that_cannot_be_looked_into() -> None:
    world = GroupWorld()
    assert delete_offsets(world, ("t", [0])).code == GroupIdNotFoundError.code
    (player,) = world.stable(1, protocol_type="connect", protocols=(("x", b""),))
    player.commit(1)
    assert delete_offsets(world, ("t", [0])).code == NonEmptyGroupError.code
    player.leave()
    assert codes(delete_offsets(world, ("t", [0]))) == [[0]]


# ---- deleted topics


def test_offsets_of_a_deleted_topic_go() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.commit(1)
    player.commit(1, topic="u")
    world.commit_offset(1, group="simple")
    world.groups.topics_deleted({"t": "", "nobody reads this": ""})
    assert world.offsets() == {("u", 0): 1}
    assert "simple" not in world.shard.groups
    assert world.restarted().offsets() == {("u", 0): 1}


def test_what_is_committed_for_the_next_topic_of_that_name_stays() -> None:
    world = GroupWorld()
    world.commit_offset(1)
    world.commit_offset(1, partition=1)
    world.refuse = CoordinatorNotAvailableError.code
    world.groups.topics_deleted({"t": ""})
    world.refuse = 0
    world.commit_offset(7)
    world.advance(2)
    assert world.offsets() == {("t", 0): 7}


def test_offsets_of_the_new_topic_stay_when_the_former_goes() -> None:
    world = GroupWorld()
    world.commit_offset(1, topic_id="former")
    world.commit_offset(2, partition=1, topic_id="new")
    world.commit_offset(3, partition=2)
    world.groups.topics_deleted({"t": "former"})
    assert world.offsets() == {("t", 1): 2}, "who did not say meant what there was"
    (answer,) = world.shard.fetch_offsets(OffsetFetchRequest("g", None)).topics
    assert [item.topic_id for item in answer.partitions] == ["new"]


def test_what_was_deleted_while_the_shard_was_loaded_goes_when_it_is() -> None:
    world = GroupWorld()
    world.commit_offset(1, topic_id="former")
    world.commit_offset(2, partition=1, topic_id="new")
    world = world.restarted(deleted_ids=["former"])
    assert world.offsets() == {("t", 1): 2}
    assert world.restarted().offsets() == {("t", 1): 2}, "for good"


def test_dropping_more_than_one_batch_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "RECORDS_BYTES_MAX", 40)
    world = GroupWorld()
    for partition in range(50):
        world.commit_offset(1, partition=partition)
    world.groups.topics_deleted({"t": ""})
    world.groups.topics_deleted({"t": ""})
    world.advance(1)
    assert not world.shard.groups
