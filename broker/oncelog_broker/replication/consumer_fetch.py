"""A consumer's fetch reads below the high watermark, or waits until there is enough to read.

* It is answered when ``min_bytes`` are there, when anything is wrong with a partition, or at the
  deadline, with what there is then. A delayed fetch is told of every move of a high watermark it
  waits for and looks once per iteration of the loop at most. One at read_committed does not look
  while a transaction keeps the last stable offset where it is. One that waits for many bytes looks
  only every 10 ms, so that a trickle of records does not make it read the same bytes over and over.
* An answer holds records of one segment of a partition at most, so a fetch in an older segment is
  answered at once, whatever ``min_bytes`` says: there is more, and it comes with the next fetch.
* The limits of a fetch are cut to ``limits.FETCH_*``, and to the room that the broker has for
  answers; the first batch is always sent whole. While there is no room nothing is read: the fetch
  looks again every 10 ms, and ends with an empty answer at its deadline.
* Each partition is read with one high watermark (KAFKA-9835).
* A consumer that asks for less than one batch has received one that does not hold: the leader looks
  before it sends it again. If it is corrupt here, another replica shall lead [D2].
* Batches of a format that the consumer does not understand are not sent (``batch_formats``).
* A consumer that names a topic id is told when it means another topic of that name.
* A read_committed fetch ends at the last stable offset. It names only the aborted transactions that
  touch what is sent: the consumer drops their records (KIP-98).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from oncelog_broker.replication.batch_formats import understood
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import Buffer, FetchPosition
from oncelog_broker.replication.purgatory import Deadline, Deadlines
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    InconsistentTopicIdError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    ProtocolError,
    StorageError,
)
from oncelog_protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.records.batch import CorruptBatchError, iter_headers, verify_crc
from oncelog_protocol.schema import Span
from oncelog_protocol.types import ISOLATION_LEVELS, IsolationLevel, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

Respond = Callable[..., None]
PartitionLookup = Callable[[TopicPartition], Partition]
"""The lookup raises the ApiError that answers the partition: unknown, or not authorized."""

EAGER_BYTES_MAX = 4096
LOOK_AGAIN_S = 0.01
"""A fetch that waits for many bytes looks again only this often."""


class ConsumerFetch:
    """It is one delayed fetch, and a ``PartitionReader`` of every partition that it waits for."""

    def __init__(
        self,
        request: FetchRequest,
        respond: Respond,
        *,
        lookup: PartitionLookup,
        deadlines: Deadlines,
        now: float,
        room: Callable[[], int],
    ) -> None:
        self._request = request
        self._respond = respond
        self._lookup = lookup
        self._deadlines = deadlines
        self._room = room
        self._max_bytes = min(request.max_bytes, limits.FETCH_BYTES_MAX)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._deadline_s = now + min(request.max_wait_ms, limits.FETCH_WAIT_MS_MAX) / 1000
        self._deadline: Deadline | None = None
        self._watched: dict[Partition, int] = {}
        """Each partition stands here with the bytes that were read last."""
        self._wake_scheduled = False
        self._done = False
        self._in_older_segment = False
        """It tells whether the last read ended with its segment, and not with what is readable."""

    @classmethod
    def start(
        cls,
        request: FetchRequest,
        respond: Respond,
        *,
        lookup: PartitionLookup,
        deadlines: Deadlines,
        now: float,
        room: Callable[[], int] = lambda: limits.FETCH_BYTES_MAX,
    ) -> ConsumerFetch:
        """Serve ``request`` now or later.

        :param room: how many bytes of records the answer may have now; 0: none.

        :raises InvalidRequestError: bounds or an isolation level that make no sense.
        """
        if request.max_bytes < 0 or request.min_bytes < 0 or request.max_wait_ms < 0:
            raise InvalidRequestError("negative max_bytes, min_bytes or max_wait_ms")
        if request.isolation_level not in ISOLATION_LEVELS:
            raise InvalidRequestError(f"isolation level {request.isolation_level}")
        fetch = cls(request, respond, lookup=lookup, deadlines=deadlines, now=now, room=room)
        fetch._try(last=request.max_wait_ms == 0)
        if not fetch._done:
            fetch._deadline = deadlines.add(fetch._deadline_s, fetch._expired)
        return fetch

    @property
    def done(self) -> bool:
        """Return whether it has been answered or dropped."""
        return self._done

    def close(self) -> None:
        """Forget the fetch, as its connection is gone."""
        self._done = True
        self._unwatch()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # ---- Reader

    def data_ready(self) -> None:
        """Do nothing, since an append is not readable yet."""

    def watermark_moved(self, stable_moved: bool) -> None:
        """Look again soon: there may be enough to read now."""
        if stable_moved or self._request.isolation_level != IsolationLevel.READ_COMMITTED:
            self._schedule(force=False)

    def role_changed(self) -> None:
        """Look again soon: the answer is an error now, or comes from somewhere else."""
        self._schedule(force=True)

    def _schedule(self, *, force: bool) -> None:
        if self._wake_scheduled or self._done:
            return
        self._wake_scheduled = True
        loop = asyncio.get_running_loop()
        if force or self._min_bytes <= EAGER_BYTES_MAX:
            loop.call_soon(self._wake)
        else:
            self._deadlines.add(loop.time() + LOOK_AGAIN_S, self._wake)

    def _wake(self) -> None:
        self._wake_scheduled = False
        if not self._done:
            self._try(last=False)

    def _expired(self) -> None:
        self._deadline = None
        if not self._done:
            logger.debug("fetch_waited")
            self._try(last=True)

    # ---- reading

    def _try(self, *, last: bool) -> None:
        """Answer if there is enough, or if it is the last chance; else watch."""
        self._unwatch()
        self._in_older_segment = False
        topics: list[FetchTopicResponse] = []
        payload: list[Buffer] = []
        position = 0
        failed = False
        allowed = self._room()
        max_bytes = min(self._max_bytes, allowed)
        for topic in self._request.topics:
            answers: list[FetchPartitionResponse] = []
            for asked in topic.partitions:
                tp = TopicPartition(topic.topic, asked.partition)
                room, first = max_bytes - position, bool(allowed) and not payload
                answer, records = self._read(tp, topic.topic_id, asked, room, first=first)
                if records:
                    answer.records = Span(position, len(records))
                    position += len(records)
                    payload.append(records)
                failed = failed or answer.error_code != 0 or answer.diverging is not None
                answers.append(answer)
            topics.append(FetchTopicResponse(topic.topic, answers))
        # Batches are whole, so what is cut to the room that there is need not fill it.
        enough = position >= self._min_bytes or 0 < allowed <= min(2 * position, self._min_bytes)
        if enough or failed or last or self._in_older_segment:
            for partition, size in self._watched.items():
                partition.consumed(size)
            self.close()
            self._respond(FetchResponse(0, topics), payload)
            return
        for partition in self._watched:
            partition.add_reader(self)
        if not allowed and not self._wake_scheduled:
            self._wake_scheduled = True
            self._deadlines.add(asyncio.get_running_loop().time() + LOOK_AGAIN_S, self._wake)

    def _read(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        asked: FetchPartition,
        room: int,
        *,
        first: bool,
    ) -> tuple[FetchPartitionResponse, Buffer]:
        records: Buffer = b""
        try:
            partition = self._lookup(topic_partition)
            if topic_id not in ("", partition.topic_id):
                # The position is of a topic that was deleted: here it would skip, or repeat.
                raise InconsistentTopicIdError(f"topic id {topic_id}, here {partition.topic_id}")
            partition.check_epoch(asked.leader_epoch)
            position = FetchPosition(
                asked.fetch_offset, asked.leader_epoch, asked.last_fetched_epoch
            )
            diverging = partition.divergence(position)
            if diverging is not None:
                return FetchPartitionResponse(asked.partition, diverging=diverging), b""
            upto = partition.readable_end(self._request.isolation_level)
            budget = min(max(asked.max_bytes, 0), room)
            if first or budget > 0:
                records = _records(partition, asked, budget, upto)
                records = understood(records, self._request.formats)
            if len(records) > budget and not first:
                # Only the first batch of an answer may be larger than what was asked for.
                records = b""
            aborted = self._aborted(partition, records, asked.fetch_offset, upto)
            if records and asked.fetch_offset < partition.log.segments.active.base_offset:
                self._in_older_segment = True
        except ApiError as error:
            return FetchPartitionResponse(asked.partition, error.code), b""
        except (OSError, ProtocolError):
            return FetchPartitionResponse(asked.partition, StorageError.code), b""
        self._watched[partition] = len(records)
        return FetchPartitionResponse(
            asked.partition,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            aborted=aborted,
        ), records

    def _aborted(
        self, partition: Partition, records: Buffer, offset: int, upto: int
    ) -> list[AbortedTransaction] | None:
        """Return the aborted transactions of which ``records`` hold something that the consumer
        must drop."""
        if not records or self._request.isolation_level != IsolationLevel.READ_COMMITTED:
            return None
        try:
            if not partition.aborted_transactions(offset, upto):
                return None
        except CorruptMessageError as error:
            partition.corruption_found(error)
            raise
        for _, header in iter_headers(records):
            upto = header.next_offset
        return partition.aborted_transactions(offset, upto)

    def _unwatch(self) -> None:
        for partition in self._watched:
            partition.remove_reader(self)
        self._watched.clear()


def _records(partition: Partition, asked: FetchPartition, budget: int, upto: int) -> Buffer:
    """Return what is asked for, as far as it holds.

    :raises ApiError: what ``Partition.read_for_consumer`` raises; but NotLeaderOrFollowerError
        instead of CorruptMessageError when there is a replica to ask next.
    """
    try:
        records = partition.read_for_consumer(asked.fetch_offset, budget, upto=upto)
        if len(records) > asked.max_bytes:
            _look_at(partition, records)
    except CorruptMessageError as error:
        if partition.log.damage:
            raise NotLeaderOrFollowerError(
                "the log is damaged, another replica is to lead"
            ) from error
        raise
    return records


def _look_at(partition: Partition, records: Buffer) -> None:
    data = memoryview(records)
    try:
        for start, header in iter_headers(data, whole=True):
            verify_crc(data[start : start + header.size_bytes])
    except CorruptBatchError as error:
        partition.corruption_found(error)
        raise CorruptMessageError(str(error)) from error
