"""ISR proposals are carried to the controller in batches here, and their answers back.

One request is under way at a time; proposals made meanwhile go with the next. When the outcome is
not known the proposal stays pending and is asked for again, with back-off, until there is a
definite answer or the leader epoch ends [Z9] [Z10]. A single task does all this; it is not on the
data path.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import IsrPort, ReplicaConfig
from oncelog_protocol.errors import OncelogError, error_for
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionResult,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

ITEMS_MAX = 1_000
"""One request has at most so many proposals."""


class _SentProposal(NamedTuple):
    partition: Partition
    item: AlterPartitionItem


class IsrSender:
    """It keeps the queue of partitions that have a proposal, and the task that empties it."""

    def __init__(self, port: IsrPort, config: ReplicaConfig, entropy: Entropy) -> None:
        self._port = port
        self._config = config
        self._entropy = entropy
        self._queue: dict[Partition, None] = {}
        self._filled = asyncio.Event()
        self.shrinks = 0
        """So many ISRs of partitions led here have become smaller, whoever changed them."""
        self.expands = 0
        """So many ISRs of partitions led here have become larger, whoever changed them."""

    def __len__(self) -> int:
        return len(self._queue)

    def enqueue(self, partition: Partition) -> None:
        """Queue a partition that has a proposal."""
        self._queue[partition] = None
        self._filled.set()

    def count_change(self, before: tuple[int, ...], partition: Partition) -> None:
        """Count a change if ``partition``, whose ISR was ``before``, has another one now. A replica
        that did not lead had none."""
        now = partition.isr
        if before and now:
            self.shrinks += len(now) < len(before)
            self.expands += len(now) > len(before)

    async def run(self) -> None:
        """Send until cancelled."""
        failures = 0
        while True:
            await self._filled.wait()
            settled = await self._send_once()
            failures = 0 if settled else failures + 1
            if failures:
                await asyncio.sleep(self._backoff_s(failures))

    async def _send_once(self) -> bool:
        """Send one request; return whether every proposal in it was settled."""
        asked = self._take_queue()
        if not asked:
            return True
        items = [entry.item for entry in asked]
        results: dict[TopicPartition, AlterPartitionResult] = {}
        try:
            async with asyncio.timeout(self._config.isr_change_timeout_ms / 1000):
                response = await self._port.alter_partition(items)
        except (OSError, TimeoutError, OncelogError) as error:
            # The error proves nothing: the port may have tried more than once.
            logger.info("isr_change_uncertain", partitions=len(items), error=error)
        else:
            if response.error_code:
                name = error_for(response.error_code).name
                logger.info("isr_changes_refused", partitions=len(items), error=name)
            else:
                results = {TopicPartition(r.topic, r.partition): r for r in response.partitions}
        return self._settle(asked, results)

    def _settle(
        self, asked: list[_SentProposal], results: dict[TopicPartition, AlterPartitionResult]
    ) -> bool:
        now = asyncio.get_running_loop().time()
        settled = True
        for partition, item in asked:
            result = results.get(TopicPartition(item.topic, item.partition))
            if result is not None and result.error_code:
                name = error_for(result.error_code).name
                logger.info("isr_change_answered", partition=partition.topic_partition, error=name)
            before = partition.isr
            still_open = partition.isr_answered(item, result, now)
            self.count_change(before, partition)
            if still_open:
                self.enqueue(partition)
                settled = settled and result is not None and result.error_code == 0
        return settled

    def _take_queue(self) -> list[_SentProposal]:
        asked: list[_SentProposal] = []
        while self._queue and len(asked) < ITEMS_MAX:
            partition = next(iter(self._queue))
            del self._queue[partition]
            item = partition.isr_item()
            if item is not None:
                asked.append(_SentProposal(partition, item))
        if not self._queue:
            self._filled.clear()
        return asked

    def _backoff_s(self, failures: int) -> float:
        config = self._config
        longest = config.isr_change_backoff_max_ms / 1000
        delay: float = min(
            config.isr_change_backoff_ms / 1000 * 2 ** min(failures - 1, 10), longest
        )
        return delay * (0.8 + 0.4 * self._entropy.random())
