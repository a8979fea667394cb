"""Leaders are asked to delete the records below an offset (KIP-107).

Asking twice is harmless: records below an offset are gone once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from oncelog.admin.results import RecordDeletionOutcome
from oncelog.core.partition_leaders import LeaderQuestion
from oncelog.core.router import Router
from oncelog.errors import ApiError
from oncelog_protocol.acls import DELETE
from oncelog_protocol.messages import admin as wire
from oncelog_protocol.types import TopicPartition

ATTEMPT_S = 8.0
"""A leader may wait so long for its followers before it is asked again, or another one is."""
ANSWER_S = 2.0
"""How long its answer may take beyond that."""


class DeletionQuestion(LeaderQuestion[RecordDeletionOutcome]):
    """Leaders delete the records below these offsets."""

    name = "DeleteRecords"

    def __init__(
        self, router: Router, offsets: Mapping[TopicPartition, int], deadline: float
    ) -> None:
        super().__init__(router, offsets, deadline)
        self._offsets = offsets

    def request(self, partitions: list[TopicPartition]) -> tuple[wire.DeleteRecordsRequest, float]:
        topics: dict[str, wire.DeleteRecordsTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, wire.DeleteRecordsTopic(tp.topic, []))
            topic.partitions.append(wire.DeleteRecordsPartition(tp.partition, self._offsets[tp]))
        now = asyncio.get_running_loop().time()
        wait_s = min(max(self._deadline - now - ANSWER_S, 0.1), ATTEMPT_S)
        request = wire.DeleteRecordsRequest(list(topics.values()), int(wait_s * 1000))
        return request, min(self._deadline, now + wait_s + ANSWER_S)

    def outcome(
        self,
        tp: TopicPartition,
        error: ApiError | None,
        item: wire.DeleteRecordsPartitionResult | None,
    ) -> RecordDeletionOutcome:
        if error is not None:
            told = self._router.explained(error, DELETE, tp.topic)
            return RecordDeletionOutcome(tp, told)
        if item is None:
            return RecordDeletionOutcome(tp)
        return RecordDeletionOutcome(tp, None, item.low_watermark)
