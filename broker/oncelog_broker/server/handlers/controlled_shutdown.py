"""The leaderships of a stopping broker are moved by ControlledShutdown, v0.

The controller serves it (else NOT_CONTROLLER), on the internal listener only; the router sees to
that.
"""

from __future__ import annotations

from oncelog_broker.server.controller_port import ControllerPort
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.messages.replication import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


class ControlledShutdownHandler:
    """It forwards to the controller."""

    def __init__(self, controller: ControllerPort) -> None:
        self._controller = controller

    async def handle_async(
        self, context: RequestContext, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """Return the controller's answer as it is."""
        response: ControlledShutdownResponse = await self._controller.handle(request, internal=True)
        return response
