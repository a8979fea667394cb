"""UpdateMetadata, v0, from the controller: what this broker tells clients, and topic configs.

Whole-request errors: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH.
"""

from __future__ import annotations

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import NO_ERROR
from oncelog_protocol.messages.replication import UpdateMetadataRequest, UpdateMetadataResponse


class UpdateMetadataHandler:
    """Fence, apply to the image, hand changed configs to the replicas."""

    def __init__(
        self, fence: ControllerFence, image: MetadataImage, replicas: ReplicaManager
    ) -> None:
        self._fence = fence
        self._image = image
        self._replicas = replicas

    def handle(
        self,
        context: RequestContext,
        request: UpdateMetadataRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """The image is changed before the answer leaves."""
        self._fence.check(request.controller_id, request.controller_epoch, request.broker_epoch)
        for config in self._image.apply(request):
            overrides = dict(zip(config.keys, config.values, strict=True))
            self._replicas.reconfigure_topic(config.topic, overrides)
        respond(UpdateMetadataResponse(NO_ERROR))
