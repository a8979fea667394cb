"""OffsetFetch tells what was committed, of topics that the principal may see."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import DESCRIBE, GROUP, TOPIC
from oncelog_broker.server.handlers.offset_fetch import OffsetFetchHandler
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import (
    BrokerNotAvailableError,
    GroupAuthorizationFailedError,
    NotCoordinatorError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.groups import OffsetFetchRequest, OffsetFetchTopic
from support.group_world import GroupWorld
from support.server import Only, answer

ALLOWED = Only((DESCRIBE, GROUP, "g"), (DESCRIBE, TOPIC, "t"))


def committed() -> GroupWorld:
    world = GroupWorld()
    world.commit_offset(3)
    world.commit_offset(4, topic="secret")
    return world


def test_it_needs_describe_on_the_group() -> None:
    with pytest.raises(GroupAuthorizationFailedError):
        answer(OffsetFetchHandler(committed().groups, Only()), OffsetFetchRequest("g", None))


def test_all_that_may_be_seen() -> None:
    response = answer(
        OffsetFetchHandler(committed().groups, ALLOWED), OffsetFetchRequest("g", None)
    )
    assert [(t.topic, [p.offset for p in t.partitions]) for t in response.topics] == [("t", [3])]


def test_what_may_not_be_seen_is_refused_by_name() -> None:
    asked = [OffsetFetchTopic("secret", [0, 1]), OffsetFetchTopic("t", [0, 9])]
    response = answer(
        OffsetFetchHandler(committed().groups, ALLOWED), OffsetFetchRequest("g", asked)
    )
    forbidden = TopicAuthorizationFailedError.code
    told = [
        (topic.topic, [(p.partition, p.offset, p.error_code) for p in topic.partitions])
        for topic in response.topics
    ]
    assert told == [
        ("secret", [(0, -1, forbidden), (1, -1, forbidden)]),
        ("t", [(0, 3, 0), (9, -1, 0)]),
    ]


class Forgetful(Only):
    """It knows who may see a group, and the ACLs of topics no more when the answer comes."""

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        if resource_type == TOPIC:
            raise BrokerNotAvailableError
        return super().authorize(context, operation, resource_type, resource_name)


def test_an_answer_whose_topics_cannot_be_judged_any_more_is_a_refusal() -> None:
    """Seed 1300003 of the simulator: nobody was answered, and the coordinator logged an error."""
    handler = OffsetFetchHandler(committed().groups, Forgetful((DESCRIBE, GROUP, "g")))
    response = answer(handler, OffsetFetchRequest("g", None))
    assert response.error_code == BrokerNotAvailableError.code
    assert response.topics == []


def test_refusals_of_the_coordinator_pass() -> None:
    world = committed()
    world.unavailable = NotCoordinatorError.code
    response = answer(OffsetFetchHandler(world.groups, ALLOWED), OffsetFetchRequest("g", None))
    assert response.error_code == NotCoordinatorError.code
