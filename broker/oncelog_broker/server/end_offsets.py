"""Where partitions begin and end, asked of their leaders: what the lag of a group is counted from.

Rules
-----
* The end is the last stable offset, for that is as far as any consumer is sure to get.
* Own partitions are looked up here; every other leader is asked once, all at the same time, by
  ListOffsets on its internal listener. Who is a leader, the image says.
* Nobody waits longer than ``DEADLINE_S``. A partition without a leader, or whose leader is silent,
  has moved or refuses, is answered None: unknown is an answer, a guess is not.
* One connection a broker, kept; a bounded number of questions at once, the others wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.controller_channel import BrokerConnector
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from oncelog_protocol.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    IsolationLevel,
    TopicPartition,
)
from oncelog_runtime.channel import RequestChannel

logger = logging.getLogger(__name__)

DEADLINE_S = 2.0
"""How long one ``fetch`` may take: a person waits for it, and a parked request holds memory."""

FETCHES_MAX = 16
"""Calls of ``fetch`` that ask others at once; further ones wait within their deadline."""

PARTITIONS_PER_REQUEST_MAX = 10_000
"""Two entries each: well below the number of items that one array may have on the wire."""

Ends = dict[TopicPartition, tuple[int, int] | None]


class EndOffsets:
    """Log starts and ends of any partitions of the cluster. Made open; ``close`` ends it."""

    def __init__(
        self,
        broker_id: int,
        image: MetadataImage,
        replicas: ReplicaManager,
        connector: BrokerConnector,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._replicas = replicas
        self._connector = connector
        self._channels: dict[int, RequestChannel] = {}
        self._opening: dict[int, asyncio.Lock] = {}
        self._slots = asyncio.Semaphore(FETCHES_MAX)
        self._closed = False

    async def fetch(self, partitions: Iterable[TopicPartition]) -> Ends:
        """(log start, last stable offset) of each partition, None where that is not known now."""
        found: Ends = dict.fromkeys(partitions)
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in found:
            order = self._image.partition(tp)
            if order is None or order.leader not in self._image.brokers:
                continue
            if order.leader == self._broker_id:
                found[tp] = self._own(tp)
            else:
                by_leader.setdefault(order.leader, []).append(tp)
        if by_leader and not self._closed:
            deadline = asyncio.get_running_loop().time() + DEADLINE_S
            try:
                async with asyncio.timeout_at(deadline):
                    await self._slots.acquire()
            except TimeoutError:
                logger.warning("end offsets: %d questions are out, this one gave up", FETCHES_MAX)
                return found
            try:
                asked = by_leader.items()
                await asyncio.gather(*(self._ask(i, named, found, deadline) for i, named in asked))
            finally:
                self._slots.release()
        return found

    def close(self) -> None:
        """Drop the connections; what waits for them gets None."""
        self._closed = True
        for channel in self._channels.values():
            channel.close("the broker stops")
        self._channels.clear()

    def _own(self, tp: TopicPartition) -> tuple[int, int] | None:
        try:
            partition = self._replicas.partition(tp)
            partition.leader_role()
        except OncelogError:
            return None
        return partition.log.log_start_offset, partition.last_stable_offset

    async def _ask(
        self, leader: int, partitions: Sequence[TopicPartition], found: Ends, deadline: float
    ) -> None:
        """Ask one leader; a failure leaves its partitions unknown and harms no others."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                channel = await self._channel(leader)
            for first in range(0, len(partitions), PARTITIONS_PER_REQUEST_MAX):
                request = _request(partitions[first : first + PARTITIONS_PER_REQUEST_MAX])
                # A call that times out closes the channel: a silent leader's does not stay.
                left_s = max(deadline - loop.time(), 0.001)
                reply = await channel.call(request, timeout_s=left_s)
                _take(reply.message, found)
        except (OSError, TimeoutError, OncelogError) as error:
            logger.info("end offsets of broker %d are not known: %r", leader, error)

    async def _channel(self, leader: int) -> RequestChannel:
        async with self._opening.setdefault(leader, asyncio.Lock()):
            channel = self._channels.get(leader)
            if channel is None or channel.closed:
                channel = await self._connector.open(leader)
                if self._closed:
                    channel.close("the broker stops")
                    raise ConnectionError("the broker stops")
                self._channels[leader] = channel
            return channel


def _request(partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for tp in partitions:
        entries = topics.setdefault(tp.topic, ListOffsetsTopic(tp.topic, [])).partitions
        entries.append(ListOffsetsPartition(tp.partition, EARLIEST_TIMESTAMP))
        entries.append(ListOffsetsPartition(tp.partition, LATEST_TIMESTAMP))
    return ListOffsetsRequest(IsolationLevel.READ_COMMITTED, list(topics.values()))


def _take(response: ListOffsetsResponse, found: Ends) -> None:
    """Answers come in the order of asking: the start of a partition, then its end."""
    if response.error_code:
        return
    for topic in response.topics:
        pairs = zip(topic.partitions[::2], topic.partitions[1::2], strict=False)
        for start, end in pairs:
            tp = TopicPartition(topic.topic, start.partition)
            known = not start.error_code and not end.error_code and end.partition == start.partition
            if known and tp in found:
                found[tp] = (start.offset, end.offset)
