"""Leaders are asked by DescribeProducers, v0 to v1, what partitions know of producers (KIP-664).

In a partition of committed offsets these are the producers with pending ones. It needs READ on each
topic. Errors: those in ``messages.transaction_admin``; COORDINATOR_LOAD_IN_PROGRESS.

A partition may remember 100,000 producers. An answer holds ``COUNT_MAX`` of all its partitions
together; partitions for which it has no room are told to be asked about again (v1).
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.authorizer import READ, TOPIC, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.transaction_admin import (
    DescribedProducer,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
)
from oncelog_protocol.types import TopicPartition

COUNT_MAX = 2_000
"""One answer has so many producers: some milliseconds of work."""


class _PendingDescription:
    """It is one request, as it is answered."""

    __slots__ = ("after", "open_count", "paged", "respond", "response", "room")

    def __init__(
        self, request: DescribeProducersRequest, context: RequestContext, respond: Respond
    ) -> None:
        self.after = request.after_producer_id
        self.paged = context.api_version >= 1
        self.room = COUNT_MAX
        self.response = DescribeProducersResponse()
        self.open_count = 1
        self.respond = respond

    def one_known(self) -> None:
        """Count a partition that has its answer, or that all were asked about."""
        self.open_count -= 1
        if not self.open_count:
            self.respond(self.response)

    def told(
        self,
        answer: DescribeProducersPartition,
        producers: list[DescribedProducer],
        more: bool = False,
    ) -> None:
        """Take in producers of one partition, by id; no more than there is room for."""
        answer.producers = producers[: self.room]
        answer.more = more or len(producers) > self.room
        self.room -= len(answer.producers)


class DescribeProducersHandler:
    """It serves DescribeProducers."""

    def __init__(
        self, replicas: ReplicaManager, groups: GroupCoordinator, authorizer: Authorizer
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DescribeProducersRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once, as a rule."""
        asked = _PendingDescription(request, context, respond)
        for topic in request.topics:
            allowed = self._authorizer.authorize(context, READ, TOPIC, topic.topic)
            answers = [DescribeProducersPartition(partition) for partition in topic.partitions]
            asked.response.topics.append(DescribeProducersTopic(topic.topic, answers))
            for answer in answers:
                asked.open_count += 1
                if allowed and topic.topic == GROUP_TOPIC:
                    self._groups.open_transactions(answer.partition, _pending(asked, answer))
                else:
                    self._describe(topic.topic, asked, answer, allowed)
                    asked.one_known()
        asked.one_known()

    def _describe(
        self,
        topic: str,
        asked: _PendingDescription,
        answer: DescribeProducersPartition,
        allowed: bool,
    ) -> None:
        try:
            if not allowed:
                raise TopicAuthorizationFailedError
            partition = self._replicas.partition(TopicPartition(topic, answer.partition))
            partition.leader_role()
            producers = partition.log.producers
        except ApiError as error:
            answer.error_code = error.code
            return
        if not asked.room:
            answer.more = True
        elif asked.paged:
            asked.told(answer, *producers.describe(asked.room, asked.after))
        else:
            opened = producers.describe_open(asked.room)
            found = {each.producer_id: each for each in opened}
            for each in producers.describe(asked.room)[0]:
                found.setdefault(each.producer_id, each)
            kept = list(found.values())[: asked.room]
            asked.told(answer, sorted(kept, key=lambda each: each.producer_id))


def _pending(
    asked: _PendingDescription, answer: DescribeProducersPartition
) -> Callable[[list[DescribedProducer], int], None]:
    def told(producers: list[DescribedProducer], error_code: int) -> None:
        if error_code == NotCoordinatorError.code:
            error_code = NotLeaderOrFollowerError.code
        answer.error_code = error_code
        if error_code == NO_ERROR:
            later = [each for each in producers if each.producer_id > asked.after]
            asked.told(answer, sorted(later, key=lambda each: each.producer_id))
        asked.one_known()

    return told
