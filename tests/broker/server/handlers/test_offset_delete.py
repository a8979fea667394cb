"""OffsetDelete takes offsets of topics that nobody reads, and that the principal may read."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import DELETE, GROUP, READ, TOPIC
from oncelog_broker.server.handlers.offset_delete import OffsetDeleteHandler
from oncelog_protocol.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.groups import OffsetDeleteRequest, OffsetFetchTopic
from support.group_world import GroupWorld
from support.server import Only, answer

ALLOWED = Only((DELETE, GROUP, "g"), (READ, TOPIC, "t"), (READ, TOPIC, "u"))


def test_it_needs_delete_on_the_group() -> None:
    world = GroupWorld()
    world.commit_offset()
    with pytest.raises(GroupAuthorizationFailedError):
        answer(OffsetDeleteHandler(world.groups, Only()), OffsetDeleteRequest("g", []))


def test_each_for_itself() -> None:
    world = GroupWorld()
    world.commit_offset()
    world.commit_offset(topic="secret")
    asked = [
        OffsetFetchTopic("u", [0]),
        OffsetFetchTopic("secret", [0]),
        OffsetFetchTopic("t", [0, 1]),
    ]
    response = answer(OffsetDeleteHandler(world.groups, ALLOWED), OffsetDeleteRequest("g", asked))
    unknown = UnknownTopicOrPartitionError.code
    told = [
        (topic.topic, [(p.partition, p.error_code) for p in topic.partitions])
        for topic in response.topics
    ]
    assert told == [
        ("u", [(0, unknown)]),
        ("secret", [(0, TopicAuthorizationFailedError.code)]),
        ("t", [(0, 0), (1, unknown)]),
    ]
    assert world.offsets() == {("secret", 0): 1}


def test_no_such_group() -> None:
    asked = OffsetDeleteRequest("g", [OffsetFetchTopic("secret", [0])])
    response = answer(OffsetDeleteHandler(GroupWorld().groups, ALLOWED), asked)
    assert response.error_code == GroupIdNotFoundError.code
