"""FindCoordinator, v0: which broker coordinates a group, by the address of the asking listener.

Any broker answers, from what it knows of the cluster: the leader of the partition of the internal
topic that the key falls on. The topic is made when it is asked for first.

Errors: INVALID_REQUEST (a ``key_type`` that is not known), INVALID_GROUP_ID (an empty name),
GROUP_AUTHORIZATION_FAILED, COORDINATOR_NOT_AVAILABLE (the topic is being made, the partition has no
leader, or the leader has no such listener).
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import DESCRIBE, GROUP, Authorizer
from oncelog_broker.server.internal_topics import InternalTopics
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.coordinators import GROUP_TOPIC, coordinator_partition
from oncelog_protocol.errors import (
    NO_ERROR,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    InvalidRequestError,
)
from oncelog_protocol.messages.groups import (
    COORDINATOR_GROUP,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.types import TopicPartition


class FindCoordinatorHandler:
    """Answers from the image."""

    def __init__(
        self, image: MetadataImage, topics: InternalTopics, authorizer: Authorizer
    ) -> None:
        self._image = image
        self._topics = topics
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: FindCoordinatorRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once, whatever is known.

        :raises ApiError: see the module.
        """
        if request.key_type != COORDINATOR_GROUP:
            raise InvalidRequestError(f"there is no coordinator of key type {request.key_type}")
        if not request.key:
            raise InvalidGroupIdError("a group has a name")
        if not self._authorizer.authorize(context, DESCRIBE, GROUP, request.key):
            raise GroupAuthorizationFailedError
        respond(self._find(GROUP_TOPIC, request.key, context.listener))

    def _find(self, topic: str, key: str, listener: str) -> FindCoordinatorResponse:
        if not self._topics.ensure(topic):
            raise CoordinatorNotAvailableError(f"{topic} is being made")
        count = self._topics.partition_count(topic)
        if count is None:
            raise CoordinatorNotAvailableError(f"{topic} is not wholly known yet")
        partition = coordinator_partition(key, count)
        order = self._image.partition(TopicPartition(topic, partition))
        address = None if order is None else self._image.address(order.leader, listener)
        if order is None or address is None:
            raise CoordinatorNotAvailableError(f"{topic}-{partition} has no leader")
        return FindCoordinatorResponse(NO_ERROR, None, order.leader, address.host, address.port)
