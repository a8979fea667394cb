"""Leaders are asked where partitions begin and end, and ended at other times.

The lag of groups is counted from that.

Rules
-----
* The end is the last stable offset, for that is as far as any consumer is sure to get.
* Own partitions are looked up here; every other leader is asked once, all at the same time, by
  ListOffsets on its internal listener. The image says who leads.
* Nobody waits longer than ``DEADLINE_S``. A partition without a leader, or whose leader is silent,
  has moved or refuses, is answered None: unknown is an answer, a guess is not.
* One connection a broker is kept; a bounded number of questions is asked at once, the others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from oncelog_broker.replication.listed_offsets import end_offset, first_at
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.broker_calls import BrokerCalls
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
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

DEADLINE_S = 2.0
"""One ``fetch`` may take so long: a person waits for it, and a parked request holds memory."""

FETCHES_MAX = 16
"""So many calls of ``fetch`` ask others at once; further ones wait within their deadline."""

ENTRIES_PER_REQUEST_MAX = 20_000
"""There is one for each partition and time: well below what one array may have on the wire."""

Ends = dict[TopicPartition, tuple[int, int] | None]
Offsets = dict[TopicPartition, list[int] | None]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _OffsetsQuery(Protocol[T_co]):
    """A query is put to every partition."""

    @property
    def times_ms(self) -> Sequence[int]:
        """Return what another leader is asked for, as ListOffsets names it; at least one."""
        ...

    def own(self, partition: Partition) -> T_co:
        """Return the answer of a partition that is led here."""
        ...

    def answer(self, offsets: list[int]) -> T_co:
        """Return the answer of another leader, from one offset for each time."""
        ...


class _EndsQuery:
    """It asks where a partition begins and ends."""

    times_ms = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)

    def own(self, partition: Partition) -> tuple[int, int]:
        return partition.log.log_start_offset, end_offset(partition, IsolationLevel.READ_COMMITTED)

    def answer(self, offsets: list[int]) -> tuple[int, int]:
        return offsets[0], offsets[1]


class _TimesQuery:
    """It is the query for the ends of a partition at some times."""

    def __init__(self, times_ms: Sequence[int]) -> None:
        self.times_ms = times_ms

    def own(self, partition: Partition) -> list[int]:
        level = IsolationLevel.READ_COMMITTED
        found = [first_at(partition, time_ms, level) for time_ms in self.times_ms]
        return [-1 if each is None else each.offset for each in found]

    def answer(self, offsets: list[int]) -> list[int]:
        return offsets


class EndOffsets:
    """It finds log starts and ends of any partitions of the cluster. It is made open; ``close``
    ends it."""

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
        self._calls = BrokerCalls(connector)
        self._slots = asyncio.Semaphore(FETCHES_MAX)
        self._closed = False

    async def fetch(self, partitions: Iterable[TopicPartition]) -> Ends:
        """Return for each partition (log start, last stable offset), None where that is not known
        now."""
        found: Ends = dict.fromkeys(partitions)
        await self._gather(found, _EndsQuery())
        return found

    async def at_times(
        self, partitions: Iterable[TopicPartition], times_ms: Sequence[int]
    ) -> Offsets:
        """Return for each partition the offset of the first record of each time or later, by the
        records' own timestamps; -1 where there is none yet, None where that is not known now."""
        found: Offsets = dict.fromkeys(partitions)
        await self._gather(found, _TimesQuery(times_ms))
        return found

    async def _gather(self, found: dict[TopicPartition, T | None], query: _OffsetsQuery[T]) -> None:
        """Put the query to the leader of each partition, and the answers where they belong."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in found:
            state = self._image.partition(tp)
            if state is None or state.leader not in self._image.brokers:
                continue
            if state.leader == self._broker_id:
                found[tp] = self._own(tp, query)
            else:
                by_leader.setdefault(state.leader, []).append(tp)
        if by_leader and not self._closed:
            deadline = asyncio.get_running_loop().time() + DEADLINE_S
            try:
                async with asyncio.timeout_at(deadline):
                    await self._slots.acquire()
            except TimeoutError:
                logger.warning("end_offsets_busy", limit=FETCHES_MAX)
                return
            try:
                await asyncio.gather(
                    *(
                        self._ask(leader, named, found, query, deadline)
                        for leader, named in by_leader.items()
                    )
                )
            finally:
                self._slots.release()

    def close(self) -> None:
        """Drop the connections; questions that wait for them get None."""
        self._closed = True
        self._calls.close()

    def _own(self, tp: TopicPartition, query: _OffsetsQuery[T]) -> T | None:
        try:
            partition = self._replicas.partition(tp)
            partition.leader_role()
            return query.own(partition)
        except (OncelogError, OSError):
            return None

    async def _ask(
        self,
        leader: int,
        partitions: Sequence[TopicPartition],
        found: dict[TopicPartition, T | None],
        query: _OffsetsQuery[T],
        deadline: float,
    ) -> None:
        """Ask one leader; a failure leaves its partitions unknown and harms no others."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                channel = await self._calls.channel(leader)
            step = max(ENTRIES_PER_REQUEST_MAX // len(query.times_ms), 1)
            for first in range(0, len(partitions), step):
                request = _request(partitions[first : first + step], query.times_ms)
                # A call that times out closes the channel: a silent leader's does not stay.
                left_s = max(deadline - loop.time(), 0.001)
                reply = await channel.call(request, timeout_s=left_s)
                _take(reply.message, query, found)
        except (OSError, TimeoutError, OncelogError) as error:
            logger.info("end_offsets_unknown", broker_id=leader, error=error)


def _request(partitions: Sequence[TopicPartition], times_ms: Sequence[int]) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for tp in partitions:
        entries = topics.setdefault(tp.topic, ListOffsetsTopic(tp.topic, [])).partitions
        entries += [ListOffsetsPartition(tp.partition, time_ms) for time_ms in times_ms]
    return ListOffsetsRequest(IsolationLevel.READ_COMMITTED, list(topics.values()))


def _take(
    response: ListOffsetsResponse,
    query: _OffsetsQuery[T],
    found: dict[TopicPartition, T | None],
) -> None:
    """Take the answers, which come in the order of asking: all of a partition, then all of the
    next."""
    if response.error_code:
        return
    count = len(query.times_ms)
    for topic in response.topics:
        answers = topic.partitions
        for first in range(0, len(answers) - count + 1, count):
            some = answers[first : first + count]
            number = some[0].partition
            tp = TopicPartition(topic.topic, number)
            is_known = all(not each.error_code and each.partition == number for each in some)
            if is_known and tp in found:
                found[tp] = query.answer([each.offset for each in some])
