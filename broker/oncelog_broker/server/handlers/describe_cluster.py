"""DescribeCluster, v0: live brokers with every listener and broker epoch, and the controller."""

from __future__ import annotations

from oncelog_broker.server.authorizer import CLUSTER, CLUSTER_NAME, DESCRIBE, Authorizer
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import NO_ERROR, ClusterAuthorizationFailedError
from oncelog_protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse


class DescribeClusterHandler:
    """Answers from the image."""

    def __init__(self, image: MetadataImage, authorizer: Authorizer) -> None:
        self._image = image
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DescribeClusterRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """:raises ClusterAuthorizationFailedError: the principal may not describe the cluster."""
        if not self._authorizer.authorize(context, DESCRIBE, CLUSTER, CLUSTER_NAME):
            raise ClusterAuthorizationFailedError
        image = self._image
        respond(
            DescribeClusterResponse(
                NO_ERROR,
                None,
                image.cluster_id,
                image.controller_id,
                image.controller_epoch,
                list(image.brokers.values()),
            )
        )
