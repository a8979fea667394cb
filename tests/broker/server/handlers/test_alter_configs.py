"""AlterConfigs of topics and brokers is forwarded to the controller."""

from __future__ import annotations

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.alter_configs import AlterConfigsHandler
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_protocol.messages.admin import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigAlteration,
    ConfigResourceResult,
)
from support.server import ControllerStub, DenyAll, make_context


def alteration(kind: int, name: str) -> ConfigAlteration:
    return ConfigAlteration(kind, name, [])


async def test_refusals_and_answers_in_order() -> None:
    controller = ControllerStub(
        AlterConfigsResponse(
            0,
            [
                ConfigResourceResult(RESOURCE_BROKER, "1", 0),
                ConfigResourceResult(RESOURCE_TOPIC, "t", 40),
            ],
        )
    )
    handler = AlterConfigsHandler(ControllerRequests(controller, AllowAllAuthorizer()))
    items = [
        alteration(99, "1"),
        alteration(RESOURCE_BROKER, "1"),
        alteration(RESOURCE_TOPIC, "t"),
        alteration(RESOURCE_TOPIC, "__consumer_offsets"),
    ]
    response = await handler.handle_async(
        make_context(internal=False), AlterConfigsRequest(items, True)
    )
    assert [r.error_code for r in response.resources] == [42, 0, 40, 42]
    assert controller.requests == [AlterConfigsRequest(items[1:3], True)]


async def test_who_may_not_alters_nothing() -> None:
    controller = ControllerStub()
    handler = AlterConfigsHandler(ControllerRequests(controller, DenyAll()))
    wishes = [alteration(RESOURCE_TOPIC, "t"), alteration(RESOURCE_BROKER, "")]
    response = await handler.handle_async(make_context(), AlterConfigsRequest(wishes))
    assert [r.error_code for r in response.resources] == [29, 31]
    assert controller.requests == []
