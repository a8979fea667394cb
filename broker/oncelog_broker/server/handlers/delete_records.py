"""DeleteRecords, v0, lets partitions begin at a later offset, at every in-sync replica, for good.

It needs DELETE on each topic. It is answered when that is on the disks of all, see
``replication.record_deletion``, or when the time is up: REQUEST_TIMED_OUT, and it may still happen.
Whole-request error: INVALID_REQUEST (a partition twice). Other errors: those in ``messages.admin``,
per partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from oncelog_broker.server.authorizer import DELETE, TOPIC, Authorizer
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    InvalidRequestError,
    InvalidTopicError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.admin import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from oncelog_protocol.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from oncelog_broker.replication.partition import Partition
    from oncelog_broker.replication.purgatory import Deadline, DelayedOperation
    from oncelog_broker.replication.replica_manager import ReplicaManager
    from oncelog_broker.server.request import RequestContext, Respond


@dataclass(slots=True, eq=False)
class _DelayedDeleteRecords:
    """Not all partitions of the request have answered."""

    respond: Respond
    response: DeleteRecordsResponse = field(default_factory=DeleteRecordsResponse)
    # One more than there are partitions, so that the answer cannot leave before all are tried.
    pending: int = 1
    operations: dict[TopicPartition, tuple[DeleteRecordsPartitionResult, DelayedOperation]] = field(
        default_factory=dict
    )
    deadline: Deadline | None = None

    def one_done(self) -> None:
        """Count a partition whose answer is known; the last one answers the request."""
        self.pending -= 1
        if self.pending == 0:
            if self.deadline is not None:
                self.deadline.cancel()
            self.respond(self.response)

    def expired(self) -> None:
        """Answer the partitions that still wait, as their time is up."""
        self.deadline = None
        operations, self.operations = self.operations, {}
        for answer, operation in operations.values():
            operation.cancel()
            answer.error_code = RequestTimedOutError.code
            self.one_done()


class DeleteRecordsHandler:
    """It serves DeleteRecords."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DeleteRecordsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Move log starts up, then answer now or later.

        :raises InvalidRequestError: a partition occurs twice; nothing was done.
        """
        names = [(topic.topic, p.partition) for topic in request.topics for p in topic.partitions]
        if len(set(names)) != len(names):
            raise InvalidRequestError("a partition occurs twice")
        delayed = _DelayedDeleteRecords(respond)
        for topic in request.topics:
            refusal = self._topic_refusal(context, topic.topic)
            answers = [DeleteRecordsPartitionResult(asked.partition) for asked in topic.partitions]
            delayed.response.topics.append(DeleteRecordsTopicResult(topic.topic, answers))
            for asked, answer in zip(topic.partitions, answers, strict=True):
                try:
                    if refusal is not None:
                        raise refusal
                    self._delete(topic.topic, asked.before_offset, answer, delayed)
                except ApiError as error:
                    answer.error_code, answer.error_message = error.code, str(error)
        if delayed.operations:
            wait_s = min(max(request.timeout_ms, 0), limits.ACK_TIMEOUT_MS_MAX) / 1000
            delayed.deadline = self._replicas.deadlines.add(
                self._replicas.now() + wait_s, delayed.expired
            )
        delayed.one_done()

    def _topic_refusal(self, context: RequestContext, topic: str) -> ApiError | None:
        if not self._authorizer.authorize(context, DELETE, TOPIC, topic):
            return TopicAuthorizationFailedError(
                f"not allowed to delete records of topic {topic!r}"
            )
        if topic in INTERNAL_TOPICS:
            return InvalidTopicError(f"topic {topic!r} is internal: it lives on what stands in it")
        return None

    def _delete(
        self,
        topic: str,
        before_offset: int,
        answer: DeleteRecordsPartitionResult,
        delayed: _DelayedDeleteRecords,
    ) -> None:
        named = TopicPartition(topic, answer.partition)
        partition = self._replicas.partition(named)
        offset = partition.deletion.delete_below(before_offset)
        delayed.pending += 1
        operation = partition.deletion.when_deleted(
            offset, partial(_settle, partition, answer, delayed)
        )
        if operation is not None:
            delayed.operations[named] = answer, operation


def _settle(
    partition: Partition,
    answer: DeleteRecordsPartitionResult,
    delayed: _DelayedDeleteRecords,
    error_code: int,
) -> None:
    delayed.operations.pop(partition.topic_partition, None)
    answer.error_code = error_code
    if not error_code:
        answer.low_watermark = partition.deletion.low_watermark()
    delayed.one_done()
