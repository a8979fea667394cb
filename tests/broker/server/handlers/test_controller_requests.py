"""Some requests are refused before the controller is asked; its answers are put back in order."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import CREATE, AllowAllAuthorizer
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.admin import DeleteTopicsRequest, DeleteTopicsResponse, TopicResult
from support.server import ControllerStub, DenyAll, make_context


async def test_answers_come_in_the_order_of_the_request() -> None:
    controller = ControllerStub(DeleteTopicsResponse(0, [TopicResult("a", 3), TopicResult("b")]))
    requests = ControllerRequests(controller, AllowAllAuthorizer())
    names = ["..", "a", "__consumer_offsets", "b"]
    code, results = await requests.topics(
        make_context(internal=False),
        CREATE,
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
    _, results = await requests.topics(make_context(), CREATE, ["/"], lambda _: None)
    assert [r.error_code for r in results] == [17]
    assert controller.requests == []


async def test_a_whole_refusal_is_passed_on() -> None:
    controller = ControllerStub(DeleteTopicsResponse(41))
    requests = ControllerRequests(controller, AllowAllAuthorizer())
    code, results = await requests.topics(
        make_context(), CREATE, ["a"], lambda _: DeleteTopicsRequest(["a"], 1)
    )
    assert (code, results) == (41, [])


def test_brokers_may_touch_internal_topics_and_the_denied_nothing() -> None:
    requests = ControllerRequests(ControllerStub(), AllowAllAuthorizer())
    name = "__transaction_state"
    assert requests.topic_error(make_context(internal=True), CREATE, name) is None
    assert requests.topic_error(make_context(internal=False), CREATE, name) is not None
    denied = ControllerRequests(ControllerStub(), DenyAll())
    error = denied.topic_error(make_context(), CREATE, "t")
    assert error is not None
    assert error.code == 29
    with pytest.raises(ClusterAuthorizationFailedError):
        denied.require_cluster(make_context(), CREATE)
