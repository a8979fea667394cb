"""The controller has this broker's view of the cluster updated by UpdateMetadata, v0 to v2.

It carries topic configs, and since v1 the settings that change while brokers run. Since v2 a full
one may come in slices.

Whole-request errors: see controller_fence; INVALID_REQUEST (a slice without those before it).
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import NO_ERROR
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)


class UpdateMetadataHandler:
    """It fences, applies to the image, and hands changed configs to the replicas, and what is set
    for brokers to ``take_settings``."""

    def __init__(
        self,
        fence: ControllerFence,
        image: MetadataImage,
        replicas: ReplicaManager,
        take_settings: Callable[[list[BrokerOverrides]], None],
    ) -> None:
        self._fence = fence
        self._image = image
        self._replicas = replicas
        self._take_settings = take_settings

    async def handle_async(
        self, context: RequestContext, request: UpdateMetadataRequest
    ) -> UpdateMetadataResponse:
        """Change the image before the answer leaves; only the last slice of a sliced one changes
        it."""
        await self._fence.admit(
            request.controller_id, request.controller_epoch, request.broker_epoch
        )
        topics_before = self._image.topics_version
        changed = self._image.apply(request)
        self._take_settings(self._image.broker_configs)
        for config in changed:
            overrides = dict(zip(config.keys, config.values, strict=True))
            self._replicas.reconfigure_topic(config.topic, overrides)
        if self._image.topics_version != topics_before:
            self._replicas.forget_settings(self._image.topics)
        return UpdateMetadataResponse(NO_ERROR)
