"""A consumer asks the cluster about partitions, assigned or not: ends, times, lag.

Rules: nothing here moves a position. Every question has a deadline, ``max_block_ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.consumer.arrivals import Arrivals
from oncelog.consumer.core import ConsumerCore
from oncelog.consumer.offsets import OffsetAndTimestamp, list_offsets
from oncelog_protocol.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition


class Questions:
    """A consumer asks the leaders of partitions, assigned or not."""

    _core: ConsumerCore
    _arrivals: Arrivals | None = None

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not."""
        found = await self._list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        return {tp: answer.offset for tp, answer in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset that the next committed record of each partition will have."""
        found = await self._list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {tp: answer.offset for tp, answer in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time (ms since 1970), or None."""
        found = await self._list_offsets(timestamps_ms)
        return {tp: (answer if answer.offset >= 0 else None) for tp, answer in found.items()}

    async def wait_for_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int = 500
    ) -> bool:
        """Return True when one of these partitions may have something at or behind its offset.

        Partitions need not be assigned, and nothing is read. It returns False when nothing came
        within ``timeout_ms``. True says that it is worth to look, not that a record is there: see
        ``end_offsets``.
        """
        self._core.running()
        if self._arrivals is None:
            self._arrivals = Arrivals(self._core.router, int(self._core.options.isolation_code))
        named = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
        for topic in dict.fromkeys(tp.topic for tp in named):
            await self._core.router.topic(topic, self._core.router.deadline())
        return await self._arrivals.wait(named, timeout_ms / 1000)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of a topic.

        :raises UnknownTopicOrPartitionError: it does not exist.
        """
        self._core.running()
        await self._core.router.topic(topic, self._core.router.deadline())
        return list(self._core.router.cluster.topic_partitions(topic))

    async def _list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._core.running()
        named = {TopicPartition(*tp): timestamp for tp, timestamp in wanted.items()}
        isolation = int(self._core.options.isolation_code)
        return await list_offsets(self._core.router, named, isolation, self._core.router.deadline())
