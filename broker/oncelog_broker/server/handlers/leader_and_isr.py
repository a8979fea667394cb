"""LeaderAndIsr, v0, from the controller, makes this broker leader or follower of partitions.

Whole-request errors: see controller_fence. Per partition the replica manager decides, and repeats
are acknowledged without effect [Z4] [Z15].
"""

from __future__ import annotations

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import NO_ERROR
from oncelog_protocol.messages.replication import LeaderAndIsrRequest, LeaderAndIsrResponse


class LeaderAndIsrHandler:
    """It fences, notes who is controller and alive, and applies."""

    def __init__(
        self, fence: ControllerFence, image: MetadataImage, replicas: ReplicaManager
    ) -> None:
        self._fence = fence
        self._image = image
        self._replicas = replicas

    async def handle_async(
        self, context: RequestContext, request: LeaderAndIsrRequest
    ) -> LeaderAndIsrResponse:
        """Apply the order as a whole before the answer leaves [Z13]."""
        await self._fence.admit(
            request.controller_id, request.controller_epoch, request.broker_epoch
        )
        # Followers look their leader's address up in the image, so it must know it first.
        self._image.note_controller(
            request.controller_id, request.controller_epoch, request.live_brokers
        )
        results = await self._replicas.apply_leader_and_isr(request)
        return LeaderAndIsrResponse(NO_ERROR, results)
