"""InitPid, v0: a producer id at epoch 0, from any broker.

INVALID_REQUEST for a transactional id, which is not served yet; COORDINATOR_NOT_AVAILABLE when no
id could be had, which the client tries again.
"""

from __future__ import annotations

from oncelog_broker.server.producer_ids import ProducerIds
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.messages.transactions import InitPidRequest, InitPidResponse


class InitPidHandler:
    """Serves InitPid."""

    def __init__(self, producer_ids: ProducerIds) -> None:
        self._producer_ids = producer_ids

    async def handle_async(
        self, context: RequestContext, request: InitPidRequest
    ) -> InitPidResponse:
        """An id of this broker's block.

        :raises InvalidRequestError, CoordinatorNotAvailableError:
        """
        if request.transactional_id is not None:
            raise InvalidRequestError("transactional ids are not served")
        return InitPidResponse(0, None, await self._producer_ids.take(), 0)
