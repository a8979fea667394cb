"""Some requests are refused before the controller is asked; its answers are put back in order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog_broker.server.access import CREATE_TOPIC
from oncelog_broker.server.authorizer import CLUSTER_NAME, CREATE, AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.admin import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    TopicResult,
)
from support.server import ControllerStub, DenyAll, Only, make_context


async def test_answers_come_in_the_order_of_the_request() -> None:
    controller = ControllerStub(DeleteTopicsResponse(0, [TopicResult("a", 3), TopicResult("b")]))
    requests = ControllerRequests(controller, AllowAllAuthorizer())
    names = ["..", "a", "__consumer_offsets", "b"]
    code, results = await requests.topics(
        make_context(internal=False),
        CREATE_TOPIC,
        names,
        lambda indexes: DeleteTopicsRequest([names[i] for i in indexes], 1),
    )
    assert code == 0
    assert [(r.topic, r.error_code) for r in results] == [
        ("..", 17),
        ("a", 3),
        ("__consumer_offsets", 17),
        ("b", 0),
    ]
    assert controller.requests[0].topics == ["a", "b"]
    assert controller.internal == [False]


async def test_the_controller_is_not_asked_about_nothing() -> None:
    controller = ControllerStub()
    requests = ControllerRequests(controller, AllowAllAuthorizer())
    _, results = await requests.topics(make_context(), CREATE_TOPIC, ["/"], lambda _: None)
    assert [r.error_code for r in results] == [17]
    assert controller.requests == []


async def test_a_whole_refusal_is_passed_on() -> None:
    controller = ControllerStub(DeleteTopicsResponse(41))
    requests = ControllerRequests(controller, AllowAllAuthorizer())
    code, results = await requests.topics(
        make_context(), CREATE_TOPIC, ["a"], lambda _: DeleteTopicsRequest(["a"], 1)
    )
    assert (code, results) == (41, [])


def test_brokers_may_touch_internal_topics_and_the_denied_nothing() -> None:
    requests = ControllerRequests(ControllerStub(), AllowAllAuthorizer())
    name = "__transaction_state"
    assert requests.topic_error(make_context(internal=True), CREATE_TOPIC, name) is None
    assert requests.topic_error(make_context(internal=False), CREATE_TOPIC, name) is not None
    denied = ControllerRequests(ControllerStub(), DenyAll())
    error = denied.topic_error(make_context(), CREATE_TOPIC, "t")
    assert error is not None
    assert error.code == 29
    with pytest.raises(ClusterAuthorizationFailedError):
        denied.require_cluster(make_context(), CREATE)


async def test_who_creates_does_not_learn_that_a_hidden_topic_is_there() -> None:
    exists = TopicAlreadyExistsError.code
    may_create = ("CREATE", "CLUSTER", CLUSTER_NAME)
    tried: list[tuple[Authorizer, bool, int]] = [
        (AllowAllAuthorizer(), False, exists),
        (Only(may_create, ("DESCRIBE", "TOPIC", "a")), False, exists),
        (Only(may_create), False, TopicAuthorizationFailedError.code),
        (Only(("CLUSTER_ACTION", "CLUSTER", CLUSTER_NAME)), True, exists),
    ]

    def forward(_: Sequence[int]) -> CreateTopicsRequest:
        return CreateTopicsRequest([CreatableTopic("a", 1, 1)], 1)

    for authorizer, internal, code in tried:
        controller = ControllerStub(CreateTopicsResponse(0, [TopicResult("a", exists, "it is")]))
        requests = ControllerRequests(controller, authorizer)
        _, results = await requests.topics(
            make_context(internal=internal), CREATE_TOPIC, ["a"], forward
        )
        assert [(result.topic, result.error_code) for result in results] == [("a", code)]
