"""DescribeProducers, v0: what partitions know of their producers, asked of the leaders (KIP-664).

In a partition of committed offsets these are the producers with pending ones. Needs READ on each
topic. Errors: those in ``messages.transaction_admin``; COORDINATOR_LOAD_IN_PROGRESS.
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


class DescribeProducersHandler:
    """Serves DescribeProducers."""

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
        """Answered at once, as a rule."""
        response = DescribeProducersResponse()
        open_count = 1

        def one_known() -> None:
            nonlocal open_count
            open_count -= 1
            if not open_count:
                respond(response)

        for topic in request.topics:
            allowed = self._authorizer.authorize(context, READ, TOPIC, topic.topic)
            answers = [DescribeProducersPartition(partition) for partition in topic.partitions]
            response.topics.append(DescribeProducersTopic(topic.topic, answers))
            for answer in answers:
                open_count += 1
                if allowed and topic.topic == GROUP_TOPIC:
                    self._groups.open_transactions(answer.partition, _told(answer, one_known))
                else:
                    self._describe(topic.topic, answer, allowed)
                    one_known()
        one_known()

    def _describe(self, topic: str, answer: DescribeProducersPartition, allowed: bool) -> None:
        try:
            if not allowed:
                raise TopicAuthorizationFailedError
            partition = self._replicas.partition(TopicPartition(topic, answer.partition))
            partition.leader_role()
            answer.producers = partition.describe_producers()
        except ApiError as error:
            answer.error_code = error.code


def _told(
    answer: DescribeProducersPartition, one_known: Callable[[], None]
) -> Callable[[list[DescribedProducer], int], None]:
    def told(producers: list[DescribedProducer], error_code: int) -> None:
        if error_code == NotCoordinatorError.code:
            error_code = NotLeaderOrFollowerError.code
        if error_code == NO_ERROR:
            answer.producers = producers
        answer.error_code = error_code
        one_known()

    return told
