"""OffsetCommit: what may and can be committed is, the rest is refused partition by partition."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import GROUP, READ, TOPIC
from oncelog_broker.server.handlers.offset_commit import OffsetCommitHandler
from oncelog_protocol.errors import (
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.groups import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from support.group_world import GroupWorld
from support.server import Only, answer, image_of_two_topics

FORBIDDEN = TopicAuthorizationFailedError.code
UNKNOWN = UnknownTopicOrPartitionError.code


def handler(world: GroupWorld) -> OffsetCommitHandler:
    allowed = Only(
        (READ, GROUP, "g"), (READ, TOPIC, "t"), (READ, TOPIC, "missing"), (READ, TOPIC, "u")
    )
    return OffsetCommitHandler(world.groups, allowed, image_of_two_topics())


def request(*topics: tuple[str, list[int]], member_id: str = "") -> OffsetCommitRequest:
    return OffsetCommitRequest(
        "g",
        -1,
        member_id,
        None,
        [
            OffsetCommitTopic(topic, [OffsetCommitPartition(p, 10 + p) for p in partitions])
            for topic, partitions in topics
        ],
    )


def test_it_needs_read_on_the_group() -> None:
    world = GroupWorld()
    with pytest.raises(GroupAuthorizationFailedError):
        answer(
            OffsetCommitHandler(world.groups, Only(), image_of_two_topics()), request(("t", [0]))
        )
    assert not world.log


def test_everything_is_committed() -> None:
    world = GroupWorld()
    response = answer(handler(world), request(("t", [1, 0])))
    assert [(p.partition, p.error_code) for p in response.topics[0].partitions] == [(1, 0), (0, 0)]
    assert world.offsets() == {("t", 0): 10, ("t", 1): 11}


def test_the_rest_is_committed() -> None:
    world = GroupWorld()
    asked = request(("missing", [0]), ("t", [5, 0, -1, 1]), ("secret", [0]))
    response = answer(handler(world), asked)
    assert response.error_code == 0
    told = [
        (topic.topic, [(p.partition, p.error_code) for p in topic.partitions])
        for topic in response.topics
    ]
    assert told == [
        ("missing", [(0, UNKNOWN)]),
        ("t", [(5, UNKNOWN), (0, 0), (-1, UNKNOWN), (1, 0)]),
        ("secret", [(0, FORBIDDEN)]),
    ]
    assert world.offsets() == {("t", 0): 10, ("t", 1): 11}


def test_whoever_is_fenced_is_told_so_whatever_it_commits() -> None:
    world = GroupWorld()
    world.commit_offset()
    response = answer(handler(world), request(("missing", [0]), member_id="stranger"))
    assert response.error_code == UnknownMemberIdError.code
    assert response.topics == []
