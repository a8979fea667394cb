"""A record goes to its partition, and there into the open batch that has room for it.

Rules
-----
* A record without a key fills one batch after the other, each on another partition (KIP-480,
  KIP-794 in spirit): a full batch moves the topic's sticky partition on.
* Room for a whole batch is reserved when it is opened; who finds none waits in line, and then looks
  again, for others may have been faster.
* A record belongs to the transaction in which it was handed over: one that waited over its end is
  not taken.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from oncelog.core.router import Router
from oncelog.errors import ClosedError, NoTransactionError
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.checks import too_large
from oncelog.producer.partition_queue import Batch, PartitionQueue
from oncelog.producer.partitioner import STICKY, Partitioner
from oncelog.producer.sender import Sender
from oncelog.producer.transactions.session import TransactionSession
from oncelog_protocol import limits
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import Entropy

BATCH_OVERHEAD_BYTES = limits.BATCH_HEADER_BYTES + 32


class Place(NamedTuple):
    """A record goes here; ``sticky``: it may as well go elsewhere."""

    queue: PartitionQueue
    sticky: bool


class Placing:
    """A producer's records get their batches here."""

    def __init__(
        self,
        router: Router,
        accumulator: Accumulator,
        *,
        partitioner: Partitioner,
        keyless_is_sticky: bool,
        batch_size: int,
        max_request_size: int,
        entropy: Entropy,
    ) -> None:
        self.queues_of: dict[str, list[PartitionQueue]] = {}
        """Topic to the queues of its partitions, as of the last metadata."""
        self._sender: Sender | None = None
        self._session: TransactionSession | None = None
        self.closed = False
        self._router = router
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._keyless_is_sticky = keyless_is_sticky
        self._batch_size = batch_size
        self._max_request_size = max_request_size
        self._entropy = entropy
        self._sticky_partition: dict[str, int] = {}

    def start(self, sender: Sender, session: TransactionSession | None) -> None:
        """Let records be sent, in the transactions of ``session`` if there is one."""
        self._sender, self._session = sender, session

    def close(self) -> None:
        """Take no more records."""
        self.closed = True

    # ------------------------------------------------------------------------------ places

    def place(self, topic: str, key: bytes | None, partition: int | None) -> Place | None:
        """Return the place of a record; None when the cluster must be asked first."""
        view = self._router.cluster.topics.get(topic)
        if view is None or not view.partitions:
            return None
        queues = self.queues_of.get(topic)
        if queues is None:
            every = self._router.cluster.topic_partitions(topic)
            queues = self.queues_of[topic] = [self._accumulator.queue(tp) for tp in every]
        count = len(queues)
        sticky = False
        if partition is not None:
            if type(partition) is not int or not 0 <= partition < count:
                return None
        else:
            partition = self._partitioner.partition(topic, key, count)
            if partition == STICKY:
                sticky = True
                partition = self._sticky_partition.get(topic, STICKY)
                if partition == STICKY:
                    partition = self.next_sticky(topic)
            elif not 0 <= partition < count:
                raise ValueError(
                    f"the partitioner chose {partition} for topic {topic!r} of {count} partitions"
                )
        return Place(queues[partition], sticky)

    def next_sticky(self, topic: str) -> int:
        """Choose another partition for records without keys: the less loaded of two random ones."""
        cluster = self._router.cluster
        choices = cluster.available(topic) or list(range(cluster.topics[topic].partition_count))
        first, second = self._entropy.choice(choices), self._entropy.choice(choices)
        queue = self._accumulator.queue
        if queue(TopicPartition(topic, second)).load < queue(TopicPartition(topic, first)).load:
            first = second
        self._sticky_partition[topic] = first
        return first

    # ------------------------------------------------------------------------------ batches

    async def batch_for(
        self,
        place: Place | None,
        topic: str,
        key: bytes | None,
        partition: int | None,
        size: int,
        serial: int,
    ) -> Batch:
        """Return an open batch with room, after waiting for it, in the transaction ``serial``."""
        deadline = self._router.deadline()
        while place is None:
            await self._router.topic_with(topic, partition, deadline)
            place = self.place(topic, key, partition)
        while True:
            self.check_usable(serial)
            place, batch = self.open_at(place, size)
            if batch is not None:
                return batch
            needed = max(size, self._batch_size)
            await self._accumulator.reserve(needed, deadline)
            try:
                self.check_usable(serial)
            except BaseException:
                self._accumulator.release(needed)
                raise
            if place.queue.open is not None:  # another task was faster
                self._accumulator.release(needed)
                continue
            return self._open_batch(place.queue, needed)

    def open_at(self, place: Place, size: int) -> tuple[Place, Batch | None]:
        """Return a place and its open batch with room. The batch is None when memory forbids a new
        one.

        A full batch is closed first. A record that may go anywhere goes elsewhere then.
        """
        if size + BATCH_OVERHEAD_BYTES > self._max_request_size:
            raise too_large(size, self._max_request_size)
        batch = place.queue.open
        if batch is not None and batch.size + size > self._batch_size:
            self._close_full(batch)
            topic = place.queue.tp.topic
            if place.sticky:
                number = self.next_sticky(topic)
                queue = self._accumulator.queue(TopicPartition(topic, number))
                place = Place(queue, sticky=True)
            batch = place.queue.open
            if batch is not None and batch.size + size > self._batch_size:
                self._close_full(batch)
                batch = None
        if batch is None:
            needed = max(size, self._batch_size)
            if self._accumulator.try_reserve(needed):
                batch = self._open_batch(place.queue, needed)
        elif place.sticky and self._keyless_is_sticky:
            self._accumulator.stick(batch)
        return place, batch

    def _close_full(self, batch: Batch) -> None:
        self._accumulator.close_batch(batch)
        assert self._sender is not None
        self._sender.wake()

    def _open_batch(self, queue: PartitionQueue, reserved: int) -> Batch:
        assert self._sender is not None
        batch = self._accumulator.open_batch(queue, asyncio.get_running_loop().time(), reserved)
        sticky = self._sticky_partition.get(queue.tp.topic)
        if sticky == queue.tp.partition and self._keyless_is_sticky:
            self._accumulator.stick(batch)
        self._sender.batch_opened(batch)
        return batch

    # ------------------------------------------------------------------------------ checks

    @property
    def serial(self) -> int:
        """Return the serial of the transaction that records belong to now, or 0."""
        return 0 if self._session is None else self._session.serial

    def check_running(self) -> None:
        """Raise unless the producer was started, and neither closed nor failed."""
        if self.closed:
            raise ClosedError("the producer is closed")
        if self._sender is None:
            raise ClosedError("the producer was not started: use async with, or start()")
        if self._sender.failure is not None:
            raise ClosedError("the producer failed") from self._sender.failure
        self._router.raise_if_failed()

    def check_usable(self, serial: int) -> None:
        """Raise unless records may be sent now, in the transaction of this ``serial``."""
        self.check_running()
        if self._session is not None:
            self._session.check_open()
            if serial != self._session.serial:
                raise NoTransactionError("the transaction ended before the record was taken")
