"""Settings of topics and of brokers are changed by AlterConfigs, v0.

The controller serves it; any other broker answers NOT_CONTROLLER. Clients of Kafka ask any broker,
and do not ask another one after that: for them what is allowed is handed on to the controller, and
what became of it goes on record under who asked. Refused here, per resource:
INVALID_REQUEST (neither of the two, or an internal topic on a listener for clients),
TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from oncelog_broker.server.access import Access
from oncelog_broker.server.authorizer import ALTER_CONFIGS, TOPIC
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import (
    ApiError,
    InvalidRequestError,
    InvalidTopicError,
)
from oncelog_protocol.messages.admin import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    AlterConfigsRequest,
    AlterConfigsResponse,
    ConfigAlteration,
    ConfigResourceResult,
)

_TOPIC_CONFIGS = Access(ALTER_CONFIGS, TOPIC)


class AlterConfigsHandler:
    """It forwards what is legal to the controller."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    async def handle_async(
        self, context: RequestContext, request: AlterConfigsRequest
    ) -> AlterConfigsResponse:
        """Return one result a resource, in order."""
        results: dict[int, ConfigResourceResult] = {}
        allowed = []
        for index, item in enumerate(request.resources):
            error = self._refusal(context, item)
            if error is None:
                allowed.append(index)
            else:
                results[index] = ConfigResourceResult(
                    item.resource_type, item.resource_name, error.code, str(error)
                )
        code = 0
        if allowed:
            response = await self._requests.asked(
                context,
                AlterConfigsRequest([request.resources[i] for i in allowed], request.validate_only),
            )
            code = response.error_code
            results.update(zip(allowed, response.resources, strict=False))
        return AlterConfigsResponse(code, [results[i] for i in sorted(results)])

    def _refusal(self, context: RequestContext, item: ConfigAlteration) -> ApiError | None:
        if item.resource_type == RESOURCE_BROKER:
            return self._requests.cluster_error(context, ALTER_CONFIGS)
        if item.resource_type != RESOURCE_TOPIC:
            return InvalidRequestError("only settings of topics and brokers can be altered")
        error = self._requests.topic_error(context, _TOPIC_CONFIGS, item.resource_name)
        return InvalidRequestError(str(error)) if isinstance(error, InvalidTopicError) else error
