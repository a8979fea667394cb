"""A message names resources, and each type of resource is refused in its own way."""

from __future__ import annotations

import pytest

from oncelog_broker.server.access import Access
from oncelog_broker.server.authorizer import (
    ALTER,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.admin import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from oncelog_protocol.messages.groups import HeartbeatRequest


def test_one_resource_is_named_by_a_field_and_the_cluster_by_none() -> None:
    request = HeartbeatRequest("g", 1, "m", None)
    assert Access(READ, GROUP, "group_id").one()(request) == "g"
    assert Access(READ, GROUP, "group_id").items == ""
    assert Access(ALTER, CLUSTER).one()(request) == CLUSTER_NAME


def test_each_item_of_a_list_names_one_or_is_one() -> None:
    create, delete = Access(CREATE, TOPIC, "topics[].topic"), Access(DELETE, TOPIC, "topics[]")
    assert (create.items, delete.items) == ("topics", "topics")
    made = CreateTopicsRequest([CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 1)], 1)
    assert [create.each()(item) for item in made.topics] == ["a", "b"]
    assert [delete.each()(item) for item in DeleteTopicsRequest(["a", "b"], 1).topics] == ["a", "b"]


@pytest.mark.parametrize(
    ("access", "refusal"),
    [
        (Access(READ, GROUP, "group_id"), GroupAuthorizationFailedError),
        (Access(ALTER, CLUSTER), ClusterAuthorizationFailedError),
        (Access(CREATE, TOPIC, "topics[].topic"), TopicAuthorizationFailedError),
        (
            Access(WRITE, TRANSACTIONAL_ID, "transactional_id"),
            TransactionalIdAuthorizationFailedError,
        ),
    ],
)
def test_each_type_of_resource_has_its_refusal(access: Access, refusal: type[ApiError]) -> None:
    assert access.refusal is refusal
