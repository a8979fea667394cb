"""Leaders are asked about partitions until each partition has an outcome.

Rules: one request a leader; partitions whose leader has moved, or has not answered in time, are
asked about again until the deadline, so whoever asks must be able to ask twice; what is wrong with
one partition stands with it, unless the subclass raises it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from oncelog.core.coordinators import as_api_error
from oncelog.core.router import Failure, Router
from oncelog.errors import (
    ApiError,
    DeadlineExceededError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    error_about,
    error_for,
    is_retriable,
)
from oncelog_protocol.messages.base import Request
from oncelog_protocol.types import NO_LEADER, TopicPartition

Outcome = TypeVar("Outcome")


def leader_of(router: Router, tp: TopicPartition) -> int:
    """Return the partition's leader; raise LeaderNotAvailableError while it has none."""
    leader = router.cluster.leader(tp)
    if leader == NO_LEADER:
        raise LeaderNotAvailableError(f"{tp} has no leader at the moment")
    return leader


class LeaderQuestion(Generic[Outcome]):
    """A question goes to the leaders of some partitions; subclasses say what it asks.

    Responses have ``error_code`` and ``topics``, topics have ``topic`` and ``partitions``, and
    these ``partition`` and ``error_code``.

    :param deadline: when the question is given up, in the loop's time.
    """

    name = ""
    """The API's name, for errors."""

    def __init__(
        self, router: Router, partitions: Iterable[TopicPartition], deadline: float
    ) -> None:
        self._router = router
        self._partitions = [TopicPartition(*tp) for tp in dict.fromkeys(partitions)]
        self._deadline = deadline
        self._found: dict[TopicPartition, Outcome] = {}
        self._failed: dict[TopicPartition, BaseException] = {}

    def request(self, partitions: list[TopicPartition]) -> tuple[Request, float]:
        """Return the request for their leader, and when it is given up, in the loop's time."""
        raise NotImplementedError

    def outcome(self, tp: TopicPartition, error: ApiError | None, item: Any) -> Outcome:
        """Return the result of one partition. ``item`` is its leader's answer, None without one."""
        raise NotImplementedError

    def failed(self, tp: TopicPartition, error: BaseException) -> Outcome:
        """Return the result of a partition about which nobody answered; ``error`` says why."""
        return self.outcome(tp, as_api_error(str(tp), error), None)

    def late(self, error: DeadlineExceededError, missing: list[TopicPartition]) -> None:
        """The deadline has come: each partition without an outcome gets that of its last error."""
        for tp in missing:
            self._found[tp] = self.failed(tp, self._failed.get(tp, error))

    async def ask(self) -> list[Outcome]:
        """Ask all leaders, and return one outcome a partition in the order of asking."""
        await self._look_up()
        try:
            if len(self._found) < len(self._partitions):
                await self._router.retry(self._attempt, self._deadline, self.name)
        except DeadlineExceededError as error:
            self.late(error, [tp for tp in self._partitions if tp not in self._found])
        return [self._found[tp] for tp in self._partitions]

    async def _look_up(self) -> None:
        topics: dict[str, list[TopicPartition]] = {}
        for tp in self._partitions:
            topics.setdefault(tp.topic, []).append(tp)
        errors = await asyncio.gather(*(self._topic_error(*item) for item in topics.items()))
        of_topic = dict(zip(topics, errors, strict=True))
        for tp in self._partitions:
            if self._router.cluster.partition(tp) is None:
                missing = UnknownTopicOrPartitionError(f"there is no partition {tp}")
                self._found[tp] = self.failed(tp, of_topic[tp.topic] or missing)

    async def _topic_error(
        self, topic: str, partitions: list[TopicPartition]
    ) -> ApiError | DeadlineExceededError | None:
        """Return why nobody can be asked about some of a topic's partitions; None when all can."""
        highest = max(tp.partition for tp in partitions)
        try:
            await self._router.topic_with(topic, highest, self._deadline)
        except (ApiError, DeadlineExceededError) as error:
            return error
        return None

    async def _attempt(self) -> None:
        self._failed.clear()
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in self._partitions:
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
        request, give_up_at = self.request(partitions)
        try:
            response = await self._router.call_broker(leader, request, give_up_at)
            if response.error_code:
                raise error_for(response.error_code)
        except Failure as error:
            for tp in partitions:
                if is_retriable(error):
                    self._failed[tp] = error
                else:
                    self._found[tp] = self.failed(tp, error)
            return
        for topic in response.topics:
            for item in topic.partitions:
                self._take(TopicPartition(topic.topic, item.partition), item)

    def _take(self, tp: TopicPartition, item: Any) -> None:
        error = None
        if item.error_code:
            error = error_about(tp, item.error_code, getattr(item, "error_message", None) or "")
            if error.retriable:
                self._failed[tp] = error
                return
        self._found[tp] = self.outcome(tp, error, item)
