"""ElectLeaders: forwarded, for who may alter the cluster."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.handlers.elect_leaders import ElectLeadersHandler
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.admin import ElectLeadersRequest, ElectLeadersResponse
from support.server import ControllerStub, DenyAll, make_context


@pytest.mark.asyncio
async def test_the_controller_answers() -> None:
    controller = ControllerStub(ElectLeadersResponse(41))
    request = ElectLeadersRequest(False, None)
    handler = ElectLeadersHandler(ControllerRequests(controller, AllowAllAuthorizer()))
    assert (await handler.handle_async(make_context(), request)).error_code == 41
    assert controller.requests == [request]
    denied = ElectLeadersHandler(ControllerRequests(controller, DenyAll()))
    with pytest.raises(ClusterAuthorizationFailedError):
        await denied.handle_async(make_context(), request)
