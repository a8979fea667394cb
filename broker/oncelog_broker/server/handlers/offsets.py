"""Partition leaders are asked about offsets by ListOffsets and OffsetForLeaderEpoch, v0.

Both are fenced by the leader epoch that the asker knows (KIP-320). ListOffsets: -2 is the log
start, -1 the high watermark (at read_committed the last stable offset), -3 the first record with
the largest timestamp below that, else the first record at or after a timestamp, if it is below. A
new leader that may know too low an end says so: OFFSET_NOT_AVAILABLE (KIP-207, see
``listed_offsets``). Per-partition errors: those in ``messages.offsets``; INVALID_REQUEST for a
timestamp below -3.
"""

from __future__ import annotations

from oncelog_broker.replication.listed_offsets import end_offset, first_at, newest
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.access import SEE_TOPIC
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import (
    ApiError,
    InvalidRequestError,
    ProtocolError,
    StorageError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.offsets import (
    EpochAnswer,
    EpochAnswerTopic,
    EpochQuery,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from oncelog_protocol.types import (
    EARLIEST_TIMESTAMP,
    ISOLATION_LEVELS,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    TopicPartition,
)


class ListOffsetsHandler:
    """It serves ListOffsets."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: ListOffsetsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once.

        :raises InvalidRequestError: an unknown isolation level.
        """
        if request.isolation_level not in ISOLATION_LEVELS:
            raise InvalidRequestError(f"isolation level {request.isolation_level}")
        response = ListOffsetsResponse()
        for topic in request.topics:
            allowed = SEE_TOPIC.allows(self._authorizer, context, topic.topic)
            answers = []
            for asked in topic.partitions:
                answer = ListOffsetsPartitionResponse(asked.partition)
                try:
                    if not allowed:
                        raise TopicAuthorizationFailedError
                    self._look_up(topic.topic, asked, request.isolation_level, answer)
                except ApiError as error:
                    answer.error_code = error.code
                except (OSError, ProtocolError):
                    answer.error_code = StorageError.code
                answers.append(answer)
            response.topics.append(ListOffsetsTopicResponse(topic.topic, answers))
        respond(response)

    def _look_up(
        self,
        topic: str,
        asked: ListOffsetsPartition,
        isolation_level: int,
        answer: ListOffsetsPartitionResponse,
    ) -> None:
        partition = self._replicas.partition(TopicPartition(topic, asked.partition))
        partition.check_epoch(asked.leader_epoch)
        if asked.timestamp == EARLIEST_TIMESTAMP:
            answer.offset = partition.log.log_start_offset
        elif asked.timestamp == LATEST_TIMESTAMP:
            answer.offset = end_offset(partition, isolation_level)
        elif asked.timestamp < MAX_TIMESTAMP:
            raise InvalidRequestError(f"timestamp {asked.timestamp}")
        else:
            if asked.timestamp == MAX_TIMESTAMP:
                found = newest(partition, isolation_level)
            else:
                found = first_at(partition, asked.timestamp, isolation_level)
            if found is not None:
                answer.timestamp, answer.offset, answer.leader_epoch = found
            return
        answer.leader_epoch = partition.leader_epoch


class OffsetForLeaderEpochHandler:
    """It serves OffsetForLeaderEpoch."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: OffsetForLeaderEpochRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once."""
        response = OffsetForLeaderEpochResponse()
        for topic in request.topics:
            allowed = SEE_TOPIC.allows(self._authorizer, context, topic.topic)
            answers = [self._look_up(topic.topic, query, allowed) for query in topic.partitions]
            response.topics.append(EpochAnswerTopic(topic.topic, answers))
        respond(response)

    def _look_up(self, topic: str, query: EpochQuery, allowed: bool) -> EpochAnswer:
        answer = EpochAnswer(query.partition)
        try:
            if not allowed:
                raise TopicAuthorizationFailedError
            partition = self._replicas.partition(TopicPartition(topic, query.partition))
            partition.check_epoch(query.current_leader_epoch)
            answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(
                query.leader_epoch
            )
        except ApiError as error:
            answer.error_code = error.code
        return answer
