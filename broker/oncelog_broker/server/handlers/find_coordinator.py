"""FindCoordinator, v0, tells which broker coordinates a group or a transactional id.

The address is that of the asking listener. Any broker answers, from what it knows of the cluster:
the leader of the partition of the internal topic that the key falls on. The topic is made when
somebody who may asks for it first.

Errors: INVALID_REQUEST (a ``key_type`` that is not known, an empty transactional id),
INVALID_GROUP_ID (an empty name), GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
CLUSTER_AUTHORIZATION_FAILED (the key of the ordinals, for who may not begin a shared transaction),
COORDINATOR_NOT_AVAILABLE (the topic is being made, the partition has no leader, or the leader has
no such listener).
"""

from __future__ import annotations

from oncelog_broker.server.access import PRODUCER_ID
from oncelog_broker.server.authorizer import DESCRIBE, GROUP, TRANSACTIONAL_ID, Authorizer
from oncelog_broker.server.internal_topics import InternalTopics
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.coordinators import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    coordinator_partition,
)
from oncelog_protocol.errors import (
    NO_ERROR,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    InvalidRequestError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.groups import (
    COORDINATOR_GROUP,
    COORDINATOR_TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.messages.shared_transactions import ORDINAL_KEY
from oncelog_protocol.types import TopicPartition


class FindCoordinatorHandler:
    """It answers from the image."""

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
        if request.key_type == COORDINATOR_GROUP:
            topic = GROUP_TOPIC
            self._check_group(context, request.key)
        elif request.key_type == COORDINATOR_TRANSACTION:
            topic = TRANSACTION_TOPIC
            self._check_transactional_id(context, request.key)
        else:
            raise InvalidRequestError(f"there is no coordinator of key type {request.key_type}")
        respond(self._find(topic, request.key, context.listener))

    def _check_group(self, context: RequestContext, group: str) -> None:
        if not group:
            raise InvalidGroupIdError("a group has a name")
        if not self._authorizer.authorize(context, DESCRIBE, GROUP, group):
            raise GroupAuthorizationFailedError

    def _check_transactional_id(self, context: RequestContext, key: str) -> None:
        if not key:
            raise InvalidRequestError("a transactional id is not empty")
        if key == ORDINAL_KEY:
            if not PRODUCER_ID.allows(self._authorizer, context):
                raise PRODUCER_ID.refusal
            return
        if not self._authorizer.authorize(context, DESCRIBE, TRANSACTIONAL_ID, key):
            raise TransactionalIdAuthorizationFailedError

    def _find(self, topic: str, key: str, listener: str) -> FindCoordinatorResponse:
        self._topics.ensure(topic)
        count = self._topics.partition_count(topic)
        if count is None:
            raise CoordinatorNotAvailableError(f"{topic} is not wholly known yet")
        partition = coordinator_partition(key, count)
        state = self._image.partition(TopicPartition(topic, partition))
        address = None if state is None else self._image.address(state.leader, listener)
        if state is None or address is None:
            raise CoordinatorNotAvailableError(f"{topic}-{partition} has no leader")
        return FindCoordinatorResponse(NO_ERROR, None, state.leader, address.host, address.port)
