"""Deleting records below offsets, asked of the leaders (KIP-107).

Rules: one request a leader; partitions whose leader has moved, or did not answer in time, are asked
for again until the deadline; what is wrong with one partition stands with it. Asking twice is
harmless: records below an offset are gone once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from oncelog.admin_results import RecordDeletionOutcome
from oncelog.errors import DeadlineExceededError, LeaderNotAvailableError, is_retriable
from oncelog.partition_producers import (
    as_api_error,
    find_partition_error,
    find_topic_error,
    leader_of,
)
from oncelog.router import Failure, Router
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages import admin as wire
from oncelog_protocol.types import TopicPartition

ATTEMPT_S = 8.0
"""A leader may wait so long for its followers before it is asked again, or another one is."""
ANSWER_S = 2.0
"""How long its answer may take beyond that."""


async def delete_records(
    router: Router, offsets: Mapping[TopicPartition, int], deadline: float
) -> list[RecordDeletionOutcome]:
    """One outcome a partition, in the order of asking. ``deadline`` is in the loop's time."""
    wanted = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
    topics = list(dict.fromkeys(tp.topic for tp in wanted))
    errors = await asyncio.gather(*(find_topic_error(router, topic, deadline) for topic in topics))
    of_topic = dict(zip(topics, errors, strict=True))
    found: dict[TopicPartition, RecordDeletionOutcome] = {}
    for tp in wanted:
        error = of_topic[tp.topic] or find_partition_error(router, tp)
        if error is not None:
            found[tp] = RecordDeletionOutcome(tp, error)
    if len(found) < len(wanted):
        await _Deletion(router, wanted, found, deadline).ask()
    return [found[tp] for tp in wanted]


class _Deletion:
    """Partitions that are asked for until each has an outcome in ``found``."""

    def __init__(
        self,
        router: Router,
        wanted: Mapping[TopicPartition, int],
        found: dict[TopicPartition, RecordDeletionOutcome],
        deadline: float,
    ) -> None:
        self._router = router
        self._wanted = wanted
        self._found = found
        self._deadline = deadline
        self._failed: dict[TopicPartition, BaseException] = {}

    async def ask(self) -> None:
        try:
            await self._router.retry(self._attempt, self._deadline, "DeleteRecords")
        except DeadlineExceededError as error:
            for tp in self._wanted:
                if tp not in self._found:
                    cause = self._failed.get(tp, error)
                    self._found[tp] = RecordDeletionOutcome(tp, as_api_error(str(tp), cause))

    async def _attempt(self) -> None:
        self._failed.clear()
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in self._wanted:
            if tp in self._found:
                continue
            try:
                by_leader.setdefault(leader_of(self._router, tp), []).append(tp)
            except LeaderNotAvailableError as error:
                self._failed[tp] = error
        await asyncio.gather(*(self._ask(leader, some) for leader, some in by_leader.items()))
        for failure in self._failed.values():
            raise failure

    async def _ask(self, leader: int, partitions: list[TopicPartition]) -> None:
        topics: dict[str, wire.RecordDeletionTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, wire.RecordDeletionTopic(tp.topic, []))
            topic.partitions.append(wire.RecordDeletion(tp.partition, self._wanted[tp]))
        now = asyncio.get_running_loop().time()
        wait_s = min(max(self._deadline - now - ANSWER_S, 0.1), ATTEMPT_S)
        request = wire.DeleteRecordsRequest(list(topics.values()), int(wait_s * 1000))
        try:
            response = await self._router.call_broker(
                leader, request, min(self._deadline, now + wait_s + ANSWER_S)
            )
            if response.error_code:
                raise error_for(response.error_code)
        except Failure as error:
            for tp in partitions:
                if is_retriable(error):
                    self._failed[tp] = error
                else:
                    self._found[tp] = RecordDeletionOutcome(tp, as_api_error(str(tp), error))
            return
        for answered in response.topics:
            for item in answered.partitions:
                self._take(TopicPartition(answered.topic, item.partition), item)

    def _take(self, tp: TopicPartition, item: wire.RecordDeletionResult) -> None:
        if not item.error_code:
            self._found[tp] = RecordDeletionOutcome(tp, None, item.low_watermark)
            return
        refusal = error_for(item.error_code, item.error_message or "")
        error = type(refusal)(f"{tp}: {refusal}")
        if error.retriable:
            self._failed[tp] = error
        else:
            self._found[tp] = RecordDeletionOutcome(tp, error)
