"""DescribeCluster, v0 to v1, shows live brokers with listeners and states, and the controller.

Version 1 has the state of each broker, and where its metrics are.
"""

from __future__ import annotations

from dataclasses import replace

from oncelog_broker.server.access import SEE_CLUSTER
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import NO_ERROR
from oncelog_protocol.messages.metadata import (
    ClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
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
        SEE_CLUSTER.demand(self._authorizer, context)
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

    def _brokers(self) -> list[DescribedBroker]:
        own_epoch = NO_EPOCH if self._fence is None else self._fence.broker_epoch
        brokers = dict(self._image.brokers)
        own = brokers.get(self._broker_id)
        if own_epoch >= 0 and (own is None or own.broker_epoch < own_epoch):
            known = own or ClusterBroker(self._broker_id, own_epoch, [])
            brokers[self._broker_id] = replace(known, broker_epoch=own_epoch)
        return [_described(brokers[broker_id]) for broker_id in sorted(brokers)]


def _described(broker: ClusterBroker) -> DescribedBroker:
    return DescribedBroker(
        broker.broker_id,
        broker.broker_epoch,
        broker.listeners,
        broker.rack,
        broker.state,
        broker.http,
    )
