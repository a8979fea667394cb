"""Leaders are asked for offsets: the first, the last, or the one at a timestamp.

Consumers and the admin client ask alike, and differ in what they make of a partition that failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.core.coordinators import attempt_deadline
from oncelog.core.partition_leaders import LeaderQuestion, Outcome
from oncelog.core.router import Router
from oncelog_protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from oncelog_protocol.types import TopicPartition


class OffsetQuestion(LeaderQuestion[Outcome]):
    """Leaders say which offset each of these partitions has at its timestamp.

    :param wanted: a timestamp for each partition, in ms since 1970; -2 earliest, -1 latest.
    :param isolation_level: at 1, read_committed, the latest is the last stable offset.
    :param deadline: when the question is given up, in the loop's time.
    """

    name = "ListOffsets"

    def __init__(
        self,
        router: Router,
        wanted: Mapping[TopicPartition, int],
        isolation_level: int,
        deadline: float,
    ) -> None:
        super().__init__(router, wanted, deadline)
        self._wanted = wanted
        self._isolation_level = isolation_level

    def request(self, partitions: list[TopicPartition]) -> tuple[ListOffsetsRequest, float]:
        topics: dict[str, ListOffsetsTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, ListOffsetsTopic(tp.topic, []))
            epoch = self._router.cluster.leader_epoch(tp)
            topic.partitions.append(ListOffsetsPartition(tp.partition, self._wanted[tp], epoch))
        request = ListOffsetsRequest(self._isolation_level, list(topics.values()))
        return request, attempt_deadline(self._deadline)
