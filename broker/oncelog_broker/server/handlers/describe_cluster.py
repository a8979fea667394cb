"""DescribeCluster, v0, shows live brokers with listeners and broker epochs, and the controller."""

from __future__ import annotations

from oncelog_broker.server.access import SEE_CLUSTER
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import NO_ERROR, ClusterAuthorizationFailedError
from oncelog_protocol.messages.metadata import (
    ClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from oncelog_protocol.types import NO_BROKER, NO_EPOCH


class DescribeClusterHandler:
    """It answers from the image; this broker knows its own epoch before any controller does.

    :param fence: knows the epoch of this broker's registration.
    """

    def __init__(
        self,
        image: MetadataImage,
        authorizer: Authorizer,
        broker_id: int = NO_BROKER,
        fence: ControllerFence | None = None,
    ) -> None:
        self._image = image
        self._authorizer = authorizer
        self._broker_id = broker_id
        self._fence = fence

    def handle(
        self,
        context: RequestContext,
        request: DescribeClusterRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer from the image, for a principal that may describe the cluster.

        :raises ClusterAuthorizationFailedError: it may not.
        """
        if not SEE_CLUSTER.allows(self._authorizer, context):
            raise ClusterAuthorizationFailedError
        image = self._image
        respond(
            DescribeClusterResponse(
                NO_ERROR,
                None,
                image.cluster_id,
                image.controller_id,
                image.controller_epoch,
                self._brokers(),
            )
        )

    def _brokers(self) -> list[ClusterBroker]:
        own_epoch = NO_EPOCH if self._fence is None else self._fence.broker_epoch
        brokers = dict(self._image.brokers)
        own = brokers.get(self._broker_id)
        if own_epoch >= 0 and (own is None or own.broker_epoch < own_epoch):
            known = ([], None) if own is None else (own.listeners, own.rack)
            brokers[self._broker_id] = ClusterBroker(self._broker_id, own_epoch, *known)
        return [brokers[broker_id] for broker_id in sorted(brokers)]
