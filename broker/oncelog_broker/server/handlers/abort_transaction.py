"""An abort marker is written by AbortTransaction, v0, if no coordinator will end a transaction.

It needs ALTER on the cluster (KIP-664). The marker carries what the partition knows of the
producer, so that it ends the named transaction and no other; in a partition of committed offsets
pending offsets of the transaction are dropped. Errors: those in ``messages.transaction_admin``.
"""

from __future__ import annotations

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.authorizer import ALTER, CLUSTER, CLUSTER_NAME, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.transactions.marker_writer import MarkerWriter
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
)
from oncelog_protocol.messages.transaction_admin import (
    AbortTransactionRequest,
    AbortTransactionResponse,
)
from oncelog_protocol.messages.transactions import MarkerResult, TxnMarker, TxnTopic
from oncelog_protocol.types import NO_EPOCH, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

PRODUCER_EPOCH_MAX = 32767


class AbortTransactionHandler:
    """It serves AbortTransaction."""

    def __init__(
        self, replicas: ReplicaManager, writer: MarkerWriter, authorizer: Authorizer
    ) -> None:
        self._replicas = replicas
        self._writer = writer
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: AbortTransactionRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Write the marker; the answer comes when it is committed.

        :raises ApiError: nothing was written.
        """
        if not self._authorizer.authorize(context, ALTER, CLUSTER, CLUSTER_NAME):
            raise ClusterAuthorizationFailedError
        coordinator_epoch = NO_EPOCH
        if request.topic != GROUP_TOPIC:
            coordinator_epoch = self._known_epoch(request)
        logger.warning(
            "transaction_aborted_by_hand",
            topic=request.topic,
            partition=request.partition,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            principal=context.principal,
        )
        marker = TxnMarker(
            request.producer_id,
            min(request.producer_epoch + 1, PRODUCER_EPOCH_MAX),
            coordinator_epoch,
            False,
            [TxnTopic(request.topic, [request.partition])],
        )

        def answer(results: list[MarkerResult]) -> None:
            code = results[0].topics[0].partitions[0].error_code
            if code == NotCoordinatorError.code:  # of a partition of committed offsets
                code = NotLeaderOrFollowerError.code
            respond(AbortTransactionResponse(code))

        self._writer.write([marker], answer)

    def _known_epoch(self, request: AbortTransactionRequest) -> int:
        """Return the coordinator epoch of the producer's last marker in the partition."""
        partition = self._replicas.partition(TopicPartition(request.topic, request.partition))
        partition.leader_role()
        for producer in partition.log.producers.describe(1, request.producer_id - 1)[0]:
            if producer.producer_id == request.producer_id and producer.txn_start_offset >= 0:
                if producer.producer_epoch != request.producer_epoch:
                    raise InvalidProducerEpochError(
                        f"its open transaction is of epoch {producer.producer_epoch}"
                    )
                return producer.coordinator_epoch
        raise InvalidTxnStateError(f"producer {request.producer_id} has no open transaction here")
