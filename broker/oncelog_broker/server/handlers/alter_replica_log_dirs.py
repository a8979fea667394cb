"""AlterReplicaLogDirs, v0, takes replicas of this broker to other directories of it (KIP-113).

Whole-request error: CLUSTER_AUTHORIZATION_FAILED. Errors of items: LOG_DIR_NOT_FOUND,
REPLICA_NOT_AVAILABLE, STORAGE_ERROR.
"""

from __future__ import annotations

from oncelog_broker.log.dir_moves import DirMoves
from oncelog_broker.server.access import Access
from oncelog_broker.server.authorizer import ALTER, CLUSTER, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import NO_ERROR, ApiError
from oncelog_protocol.messages.admin import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    ReplicaPlace,
    ReplicaPlaceResult,
)
from oncelog_protocol.types import TopicPartition

CHANGE_CLUSTER = Access(ALTER, CLUSTER)


class AlterReplicaLogDirsHandler:
    """It hands the wishes to the broker's moves."""

    def __init__(self, moves: DirMoves, authorizer: Authorizer) -> None:
        self._moves = moves
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: AlterReplicaLogDirsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Begin the moves, for a principal that may alter the cluster; answer with what each is.

        :raises ClusterAuthorizationFailedError: it may not.
        """
        CHANGE_CLUSTER.demand(self._authorizer, context)
        results = [self._begin(each, request.validate_only) for each in request.replicas]
        respond(AlterReplicaLogDirsResponse(NO_ERROR, results))

    def _begin(self, wish: ReplicaPlace, validate_only: bool) -> ReplicaPlaceResult:
        topic_partition = TopicPartition(wish.topic, wish.partition)
        result = ReplicaPlaceResult(wish.topic, wish.partition)
        try:
            result.size_bytes = self._moves.begin(
                topic_partition, wish.path, validate_only=validate_only
            )
        except ApiError as error:
            result.error_code, result.error_message = error.code, str(error)
        return result
