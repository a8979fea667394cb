"""A message names resources, and each type of resource is refused in its own way."""

from __future__ import annotations

import pytest

from oncelog_broker.server.access import CREATE_TOPIC, PRODUCER_ID, SEE_TOPIC, Access
from oncelog_broker.server.authorizer import (
    ALTER,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.admin import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from oncelog_protocol.messages.groups import HeartbeatRequest
from support.server import DenyAll, Only, make_context


class OnlyOthers(Only):
    """It denies what it does not allow."""

    def denies(self, context: RequestContext, operation: str, *resource: str) -> bool:
        return True


CREATE_ANY = (CREATE, CLUSTER, CLUSTER_NAME)
BROKER = (CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)


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


@pytest.mark.parametrize(
    ("access", "authorizer", "allowed"),
    [
        (CREATE_TOPIC, Only((CREATE, TOPIC, "t")), True),
        (CREATE_TOPIC, Only(CREATE_ANY), True),
        (CREATE_TOPIC, OnlyOthers(CREATE_ANY), False),
        (CREATE_TOPIC, Only((CREATE, TOPIC, "u")), False),
        (CREATE_TOPIC, Only(BROKER), False),
        (SEE_TOPIC, Only((DESCRIBE, CLUSTER, CLUSTER_NAME)), False),
        (SEE_TOPIC, DenyAll(), False),
    ],
)
def test_a_client_needs_the_operation_on_the_resource_or_what_implies_it(
    access: Access, authorizer: Only | DenyAll, allowed: bool
) -> None:
    assert access.allows(authorizer, make_context(internal=False), "t") == allowed


def test_brokers_have_what_their_own_work_needs() -> None:
    assert CREATE_TOPIC.allows(Only(BROKER), make_context(), "t")
    assert SEE_TOPIC.allows(Only(BROKER), make_context(), "t")
    assert not Access(CREATE, TOPIC).allows(Only(BROKER), make_context(), "t")
    assert not SEE_TOPIC.allows(DenyAll(), make_context(), "t")


def test_who_may_write_to_some_topic_may_have_a_producer_id_unless_that_is_denied() -> None:
    context = make_context(internal=False)
    writer = (WRITE, TOPIC, "t")
    assert PRODUCER_ID.allows(Only(writer), context)
    assert PRODUCER_ID.allows(Only((IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME)), context)
    assert not PRODUCER_ID.allows(OnlyOthers(writer), context)
    assert not PRODUCER_ID.allows(Only((READ, TOPIC, "t")), context)
