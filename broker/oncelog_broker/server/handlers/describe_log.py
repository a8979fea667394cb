"""DescribeLog, v0, tells how this broker's replica of a partition lies on disk, leader or not.

It needs READ on the topic, as what tells producers does. Records are never told. Errors: those in
``messages.log_description``.
"""

from __future__ import annotations

import asyncio

from oncelog_broker.log.log_description import describe_log
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.access import READ_TOPIC
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import (
    ApiError,
    InvalidRequestError,
    StorageError,
)
from oncelog_protocol.messages.log_description import DescribeLogRequest, DescribeLogResponse
from oncelog_protocol.types import TopicPartition

AT_ONCE_MAX = 2
"""So many logs are read at a time; the others wait, and threads stay free for the broker's work."""


class DescribeLogHandler:
    """It serves DescribeLog."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._replicas = replicas
        self._authorizer = authorizer
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)

    async def handle_async(
        self, context: RequestContext, request: DescribeLogRequest
    ) -> DescribeLogResponse:
        """Answer when what is asked for has been read."""
        try:
            return await self._described(context, request)
        except ApiError as error:
            return DescribeLogResponse(error.code, str(error), request.topic, request.partition)

    async def _described(
        self, context: RequestContext, request: DescribeLogRequest
    ) -> DescribeLogResponse:
        partition = self._partition(context, request)
        for name in ("from_offset", "at_offset", "batches_from"):
            if getattr(request, name) < -1:
                raise InvalidRequestError(f"{name} {getattr(request, name)}")
        async with self._turns:
            if partition.failed:
                raise StorageError(f"{partition.topic_partition}: the replica is out of service")
            response = await describe_log(partition.log, request)
        response.leader_epoch = partition.leader_epoch
        response.is_leader = partition.is_leader
        response.high_watermark = partition.high_watermark
        response.last_stable_offset = partition.last_stable_offset
        return response

    def _partition(self, context: RequestContext, request: DescribeLogRequest) -> Partition:
        named = TopicPartition(request.topic, request.partition)
        if not READ_TOPIC.allows(self._authorizer, context, request.topic):
            raise READ_TOPIC.refusal
        return self._replicas.partition(named)
