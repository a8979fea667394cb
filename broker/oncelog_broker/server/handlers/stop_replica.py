"""The controller has replicas stopped, and deleted if it says so, by StopReplica, v0.

Whole-request errors: see controller_fence. It is answered when the directories are out of the way;
requests behind it on the connection wait, so that an order to create the same topic again finds its
place free.
"""

from __future__ import annotations

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import NO_ERROR
from oncelog_protocol.messages.replication import StopReplicaRequest, StopReplicaResponse


class StopReplicaHandler:
    """It fences, then stops."""

    def __init__(self, fence: ControllerFence, replicas: ReplicaManager) -> None:
        self._fence = fence
        self._replicas = replicas

    async def handle_async(
        self, context: RequestContext, request: StopReplicaRequest
    ) -> StopReplicaResponse:
        """Stop the replicas that the controller names.

        :raises StaleControllerEpochError, StaleBrokerEpochError: not obeyed.
        """
        await self._fence.admit(
            request.controller_id, request.controller_epoch, request.broker_epoch
        )
        return StopReplicaResponse(NO_ERROR, await self._replicas.stop_replicas(request))
