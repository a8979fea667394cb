"""InitPid, v0, gives a producer id at epoch 0, or a transactional id's producer a new epoch.

With a transactional id its coordinator is asked. It needs WRITE on the id; errors are those in
``messages.transactions``. Without one any broker answers. That needs IDEMPOTENT_WRITE on the
cluster, or WRITE on some topic (KIP-679). Its errors are CLUSTER_AUTHORIZATION_FAILED,
COORDINATOR_NOT_AVAILABLE when no id could be had, which the client tries again, and INVALID_REQUEST
for a producer id of its own, of which nobody could say whether it is.
"""

from __future__ import annotations

import asyncio

from oncelog_broker.coordinator.transaction.service import TransactionCoordinator
from oncelog_broker.server.access import PRODUCER_ID
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.handlers.transactional_ids import check_transactional_id
from oncelog_broker.server.producer_ids import ProducerIds
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.messages.transactions import InitPidRequest, InitPidResponse
from oncelog_protocol.types import NO_PRODUCER_ID


class InitPidHandler:
    """It serves InitPid."""

    def __init__(
        self,
        producer_ids: ProducerIds,
        transactions: TransactionCoordinator,
        authorizer: Authorizer,
    ) -> None:
        self._producer_ids = producer_ids
        self._transactions = transactions
        self._authorizer = authorizer

    async def handle_async(
        self, context: RequestContext, request: InitPidRequest
    ) -> InitPidResponse:
        """Return an id of this broker's block, or what the coordinator says.

        :raises ApiError: see the module.
        """
        if request.transactional_id is None:
            if request.producer_id != NO_PRODUCER_ID:
                raise InvalidRequestError("a producer id is kept for a transactional id only")
            if not PRODUCER_ID.allows(self._authorizer, context):
                raise PRODUCER_ID.refusal
            return InitPidResponse(0, None, await self._producer_ids.take(), 0)
        check_transactional_id(self._authorizer, context, request.transactional_id)
        answered: asyncio.Future[InitPidResponse] = asyncio.get_running_loop().create_future()

        def answer(response: InitPidResponse) -> None:
            if not answered.done():  # it is when the broker stops meanwhile
                answered.set_result(response)

        self._transactions.init_pid(request, answer)
        return await answered
