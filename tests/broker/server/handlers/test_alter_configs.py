"""AlterConfigs of topics and brokers is forwarded to the controller."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
from oncelog_protocol.records.batch import KAFKA_MAGIC
from support.server import ControllerStub, DenyAll, ElsewhereStub, make_context


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


@pytest.mark.parametrize("answers", [True, False])
async def test_what_a_client_of_kafka_may_change_is_handed_on(answers: bool) -> None:
    allowed = ConfigResourceResult(RESOURCE_TOPIC, "t", 41)
    controller = ControllerStub(*[AlterConfigsResponse(41, [allowed])] * 2)  # NOT_CONTROLLER
    done = AlterConfigsResponse(0, [ConfigResourceResult(RESOURCE_TOPIC, "t", 0)])
    elsewhere = ElsewhereStub(done if answers else None)
    requests = ControllerRequests(controller, AllowAllAuthorizer(), elsewhere=elsewhere)
    handler = AlterConfigsHandler(requests)
    wishes = [alteration(RESOURCE_TOPIC, "__consumer_offsets"), alteration(RESOURCE_TOPIC, "t")]
    context = make_context(internal=False)
    ours = await handler.handle_async(context, AlterConfigsRequest(wishes))
    assert [r.error_code for r in ours.resources] == [42, 41]
    assert elsewhere.requests == []
    kafkas = replace(context, magic=KAFKA_MAGIC)
    response = await handler.handle_async(kafkas, AlterConfigsRequest(wishes))
    assert [r.error_code for r in response.resources] == [42, 0 if answers else 41]
    assert elsewhere.requests == [AlterConfigsRequest(wishes[1:])]
