"""The leader serves a follower's fetch connection with an incremental session (KIP-227).

The scheme, both ends
---------------------
* A session is a connection. The follower *names* a partition when it wants to read on from a new
  position; the name stays open at the leader until it is answered with data, with an error or with
  a divergence. So there is at most one open read per partition, and nothing is ever sent twice.
* A follower names a partition when everything it holds of it is **synced**: a name reports a
  durable offset and asks for more in one message. While a partition waits for the follower's sync
  the leader gathers what comes; the next answer takes it all: a group commit over the wire.
  (Fetching ahead of the sync was weighed: it needs a second offset and a second exchange per sync,
  and with a producer's window of a few batches per partition the cores are scarce, not the wire.)
* One fetch at a time is delayed. Should another come, because a partition became durable later than
  its neighbours or got a new leader epoch, the delayed one is answered first, *before* the new
  names are read: answer k reflects the names of requests up to k. That is how a follower tells data
  for an old position from data for a new one.
* New data and errors complete a delayed fetch, in the same iteration of the loop as the appends,
  once for all of them. A high watermark that has moved, or that a session has not heard of, rides
  along with the next answer and wakes nobody.
* A fetch that finds news at once, in the middle of a stream of data, is answered a millisecond
  later (it gathers). It has just let the high watermark move, so producers are about to send more.
  An answer at once would split a producer's window into small trains that never meet again, and
  every train costs an exchange and a sync of its own. (Measured with 16 KiB batches, five in
  flight: 2.4 requests an exchange without, 3.2 with, 15 % more throughput on the same cores.) A
  trickle of records and a follower that is far behind are answered at once.
* Over the catch-up lane an answer has as many records as the leader's pace allows; while that is
  none, the fetch is delayed. It says of each partition how much is left, and a partition that lacks
  nothing is answered at once, so that the follower names it on the main lane (``catch_up``).
* Every step costs O(partitions with news). Idle partitions cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from oncelog_broker.replication.batch_formats import understood
from oncelog_broker.replication.catch_up import WAIT, Pace, Tokens
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import Buffer, FetchPosition
from oncelog_broker.replication.progress import Contact
from oncelog_broker.replication.purgatory import Deadline, Deadlines
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    InconsistentTopicIdError,
    InvalidFetchSessionEpochError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    ProtocolError,
    StorageError,
)
from oncelog_protocol.messages.fetch import (
    EpochEnd,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.records.batch import CorruptBatchError, iter_headers, verify_crc
from oncelog_protocol.schema import Span
from oncelog_protocol.types import FETCH_LANES, FetchLane, TopicPartition

Respond = Callable[..., None]
PartitionLookup = Callable[[TopicPartition], Partition]
"""The lookup raises UnknownTopicOrPartitionError when the broker has no such replica."""

GATHER_S = 0.001
GATHER_BYTES_MIN = 16 * 1024
GATHER_BYTES_MAX = 4 * 1024 * 1024
"""A stream is gathered while its answers are between these sizes: below it latency counts, above
there is more than enough in each."""

WATERMARK_NEWS_MAX = 1_000
"""So many partitions of one answer may carry nothing but a high watermark."""


@dataclass(slots=True, eq=False)
class SessionEntry:
    """An entry is one partition of the session, and a ``Reader`` of the partition."""

    session: FollowerSession
    topic_partition: TopicPartition
    partition: Partition | None = None
    offset: int = 0
    max_bytes: int = 0
    leader_epoch: int = -1
    open: bool = False
    """It tells whether the follower waits for an answer to its last name."""
    error_code: int = 0
    diverging: EpochEnd | None = None
    sent_from: int = -1
    """The records that were sent last began at this offset; their size stands beside it."""
    sent_bytes: int = 0
    sent_watermark: int = -1
    sent_start: int = -1

    @property
    def readable(self) -> Partition | None:
        """Return the partition whose records may answer the name; None: something else does."""
        return None if self.error_code or self.diverging is not None else self.partition

    def data_ready(self) -> None:
        """Answer the open name, as the leader has appended."""
        if self.open:
            self.session.news(self)

    def watermark_moved(self, stable_moved: bool) -> None:
        """Tell the high watermark with the next answer."""
        self.session.watermark_news[self] = None

    def role_changed(self) -> None:
        """Fence the open name if the leader epoch is another one: a name means one epoch
        (KAFKA-9338)."""
        partition = self.partition
        if not self.open or partition is None:
            return
        try:
            partition.check_epoch(self.leader_epoch)
        except ApiError as error:
            self.error_code = error.code
            self.session.news(self)


def _check_sent(partition: Partition, entry: SessionEntry) -> None:
    """Check the records that the follower was sent before, as it asks for them again.

    :raises CorruptMessageError: they cannot be used.
    """
    data = memoryview(partition.read_for_follower(entry.sent_from, entry.sent_bytes))
    expected = entry.sent_from
    try:
        for start, header in iter_headers(data, whole=True):
            verify_crc(data[start : start + header.size_bytes])
            if not header.base_offset <= expected < header.next_offset:
                raise CorruptBatchError(f"offset {header.base_offset} where {expected} was to come")
            expected = header.next_offset
    except CorruptBatchError as error:
        partition.corruption_found(error)
        raise CorruptMessageError(str(error)) from error


class _DelayedFetch(NamedTuple):
    request: FetchRequest
    respond: Respond


class FollowerSession:
    """A session serves the fetches of one follower over one connection."""

    def __init__(
        self,
        replica_id: int,
        *,
        lookup: PartitionLookup,
        deadlines: Deadlines,
        now: float,
        pace: Pace | None = None,
    ) -> None:
        """``pace`` bounds what goes over the catch-up lanes of all followers; None: nothing."""
        self._pace = pace
        self.replica_id = replica_id
        self.contact = Contact(now)
        self.watermark_news: dict[SessionEntry, None] = {}
        self._lookup = lookup
        self._deadlines = deadlines
        self._entries: dict[TopicPartition, SessionEntry] = {}
        self._news: dict[SessionEntry, None] = {}
        self._next_epoch = 0
        self._delayed: _DelayedFetch | None = None
        self._deadline: Deadline | None = None
        self._wake_scheduled = False
        self._loop = asyncio.get_running_loop()
        self._answered_bytes = 0
        """It is the size of the last answer."""
        self._gathering: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def handle(self, request: FetchRequest, respond: Respond, now: float) -> None:
        """Serve one fetch: answer now, or when there is news, or after ``max_wait_ms``.

        :raises InvalidFetchSessionEpochError: not the next fetch of this session.
        :raises InvalidRequestError: bounds or a lane that make no sense.
        """
        if request.session_epoch != self._next_epoch:
            raise InvalidFetchSessionEpochError(
                f"session epoch {request.session_epoch}, expected {self._next_epoch}"
            )
        if request.max_bytes < 0 or request.min_bytes < 0 or request.max_wait_ms < 0:
            raise InvalidRequestError("negative max_bytes, min_bytes or max_wait_ms")
        if request.lane not in FETCH_LANES:
            raise InvalidRequestError(f"lane {request.lane}")
        if self._delayed is not None:
            self._answer()
        self._next_epoch += 1
        self.contact.heard(now)
        for forgotten in request.forgotten:
            for number in forgotten.partitions:
                self._forget(TopicPartition(forgotten.topic, number))
        for topic in request.topics:
            for named in topic.partitions:
                topic_partition = TopicPartition(topic.topic, named.partition)
                self._name(topic_partition, topic.topic_id, named, request, now)
        self._delayed = _DelayedFetch(request, respond)
        if request.max_wait_ms == 0:
            self._answer()
        elif self._news:
            if GATHER_BYTES_MIN <= self._answered_bytes < GATHER_BYTES_MAX:
                self._gathering = self._loop.call_later(GATHER_S, self._gathered)
            else:
                self._answer(may_wait=True)
        else:
            self._wait(request, now)

    def news(self, entry: SessionEntry) -> None:
        """Note that ``entry`` has something for the follower, and complete a delayed fetch."""
        self._news[entry] = None
        if self._delayed is not None and not self._wake_scheduled and self._gathering is None:
            # Once for all appends of this iteration of the loop.
            self._wake_scheduled = True
            self._loop.call_soon(self._wake)

    def end(self) -> None:
        """Answer what is delayed, then forget all: another session begins on the connection."""
        if self._delayed is not None:
            self._answer()
        self.close()

    def close(self) -> None:
        """Forget all, as the connection is gone."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self._gathering is not None:
            self._gathering.cancel()
        self._delayed = None
        for entry in self._entries.values():
            if entry.partition is not None:
                entry.partition.remove_reader(entry)
        self._entries.clear()
        self._news.clear()
        self.watermark_news.clear()

    # ---- names

    def _name(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        named: FetchPartition,
        request: FetchRequest,
        now: float,
    ) -> None:
        entry = self._entries.get(topic_partition)
        if entry is None:
            entry = self._entries[topic_partition] = SessionEntry(self, topic_partition)
        if entry.open or named.leader_epoch != entry.leader_epoch:
            # It may not have taken an answer to a name that it gave up, or to another epoch.
            entry.sent_watermark = -1
        entry.offset = named.fetch_offset
        entry.max_bytes = max(named.max_bytes, 0)
        entry.leader_epoch = named.leader_epoch
        entry.open = True
        entry.error_code = 0
        entry.diverging = None
        try:
            partition = self._lookup(topic_partition)
            if partition is not entry.partition:
                if entry.partition is not None:
                    entry.partition.remove_reader(entry)
                entry.partition = partition
                partition.add_reader(entry)
            if topic_id != partition.topic_id:
                # Its epochs would pass for ours, and it will be dropped, whatever it holds [K25].
                raise InconsistentTopicIdError(f"topic id {topic_id}, here {partition.topic_id}")
            if named.fetch_offset == entry.sent_from:
                _check_sent(partition, entry)
            entry.diverging = partition.record_follower_fetch(
                self.replica_id,
                FetchPosition(
                    named.fetch_offset,
                    named.leader_epoch,
                    named.last_fetched_epoch,
                    named.log_start_offset,
                ),
                broker_epoch=request.broker_epoch,
                contact=self.contact,
                now=now,
            )
        except ApiError as error:
            entry.error_code = error.code
            self._news[entry] = None
            return
        catches_up = request.lane == FetchLane.CATCH_UP
        lacks_records = partition.log.log_end_offset > entry.offset
        if lacks_records or catches_up or entry.diverging is not None:
            self._news[entry] = None
        else:
            self._news.pop(entry, None)
            if partition.high_watermark > max(0, entry.sent_watermark):
                # Nobody may write here for days: it must hear what is committed all the same.
                self.watermark_news[entry] = None

    def _forget(self, topic_partition: TopicPartition) -> None:
        entry = self._entries.pop(topic_partition, None)
        if entry is None:
            return
        if entry.partition is not None:
            entry.partition.remove_reader(entry)
        self._news.pop(entry, None)
        self.watermark_news.pop(entry, None)

    # ---- answers

    def _gathered(self) -> None:
        self._gathering = None
        self._answer(may_wait=True)

    def _wake(self) -> None:
        self._wake_scheduled = False
        if self._delayed is not None and self._news:
            self._answer(may_wait=True)

    def _wait(self, request: FetchRequest, now: float) -> None:
        wait_s = min(request.max_wait_ms, limits.FETCH_WAIT_MS_MAX) / 1000
        self._deadline = self._deadlines.add(now + wait_s, self._answer)

    def _answer(self, *, may_wait: bool = False) -> None:
        """Answer what is delayed; ``may_wait``: only if something may go now."""
        delayed, self._delayed = self._delayed, None
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if delayed is not None:
            topics, payload = self._serve_news(delayed.request)
            if may_wait and not topics and self._news and self._pace is not None:
                self._wait_for_pace(delayed, self._pace)
                return
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()
        if delayed is None:
            return
        self._add_watermarks(topics)
        if delayed.request.lane == FetchLane.CATCH_UP:
            self._tell_what_is_left(topics)
        delayed.respond(FetchResponse(0, list(topics.values())), payload)

    def _wait_for_pace(self, delayed: _DelayedFetch, pace: Pace) -> None:
        """Delay a fetch again: all that it asks for is held back."""
        now = self._loop.time()
        self._delayed = delayed
        self._gathering = self._loop.call_at(pace.ready_at(now), self._gathered)
        if self._deadline is None:
            self._wait(delayed.request, now)

    def _serve_news(
        self, request: FetchRequest
    ) -> tuple[dict[str, FetchTopicResponse], list[Buffer]]:
        """Return the answers to names that have one and may go now, and their records."""
        room = min(request.max_bytes, limits.FETCH_BYTES_MAX)
        tokens: Tokens | None = None
        if self._pace is not None and request.lane == FetchLane.CATCH_UP:
            tokens = Tokens(self._pace, self.replica_id, self._loop.time())
        news, self._news = self._news, {}
        # By topic, as the message has it: the spans of a message must ascend.
        by_topic: dict[str, list[SessionEntry]] = {}
        for entry in news:
            by_topic.setdefault(entry.topic_partition.topic, []).append(entry)
        topics: dict[str, FetchTopicResponse] = {}
        payload: list[Buffer] = []
        position = 0
        for topic, entries in by_topic.items():
            answers: list[FetchPartitionResponse] = []
            for entry in entries:
                if position >= room and payload:
                    # Served first next time: the dictionary keeps the order of arrival.
                    self._news[entry] = None
                    continue
                most = room - position
                if tokens is not None:
                    most = tokens.most(entry.readable, entry.offset, most)
                    if most == WAIT:
                        self._news[entry] = None
                        continue
                answer, records = self._serve(entry, most, request.formats)
                if records:
                    if tokens is not None:
                        tokens.sent(entry.partition, len(records))
                    answer.records = Span(position, len(records))
                    position += len(records)
                    payload.append(records)
                answers.append(answer)
            if answers:
                topics[topic] = FetchTopicResponse(topic, answers)
        self._answered_bytes = position
        return topics, payload

    def _serve(
        self, entry: SessionEntry, room: int, formats: int
    ) -> tuple[FetchPartitionResponse, Buffer]:
        """Return the answer to one open name, and close the name."""
        partition = entry.partition
        number = entry.topic_partition.partition
        entry.open = False
        code = entry.error_code
        if partition is None or code:
            answer = FetchPartitionResponse(number, code or NotLeaderOrFollowerError.code)
            if partition is not None:
                # A follower that fell below the log start needs to know it.
                answer.log_start_offset = partition.log.log_start_offset
            return answer, b""
        if entry.diverging is not None:
            # No offsets beside it: a follower must not act on them before it has truncated
            # (KAFKA-14704).
            answer = FetchPartitionResponse(number)
            partition.safeguards.diverging_answer(answer, partition)
            answer.diverging = entry.diverging
            return answer, b""
        try:
            records = partition.read_for_follower(entry.offset, min(entry.max_bytes, room))
            records = understood(records, formats)
        except ApiError as error:
            return FetchPartitionResponse(
                number, error.code, log_start_offset=partition.log.log_start_offset
            ), b""
        except (OSError, ProtocolError):
            return FetchPartitionResponse(number, StorageError.code), b""
        if records:
            entry.sent_from, entry.sent_bytes = entry.offset, len(records)
            partition.traffic.sent_to_follower(len(records))
        else:
            entry.open = True
        return self._offsets(entry, partition), records

    def _tell_what_is_left(self, topics: dict[str, FetchTopicResponse]) -> None:
        """Say in each answer how much of the log lies after it, so that the follower knows when it
        is near. That is nothing for a member of the ISR or the ELR: its place is on the main lane,
        and it may have become one since it was ordered to follow [N104]."""
        for topic, response in topics.items():
            for answer in response.partitions:
                entry = self._entries[TopicPartition(topic, answer.partition)]
                partition = entry.readable
                if partition is None or partition.leader is None or answer.error_code:
                    continue
                left = partition.log.segments.bytes_from(entry.offset) - answer.records.length
                is_free = partition.leader.spares(self.replica_id)
                answer.bytes_left = 0 if is_free else max(0, left)

    def _add_watermarks(self, topics: dict[str, FetchTopicResponse]) -> None:
        news = self.watermark_news
        count = 0
        for entry in list(news):
            if count >= WATERMARK_NEWS_MAX:
                break
            del news[entry]
            partition = entry.partition
            if not entry.open or partition is None or entry.diverging or entry.error_code:
                # Its next answer carries the offsets anyway.
                continue
            if entry in self._news or not self._moved(entry, partition):
                continue
            topic = entry.topic_partition.topic
            if topic not in topics:
                topics[topic] = FetchTopicResponse(topic)
            topics[topic].partitions.append(self._offsets(entry, partition))
            count += 1

    @staticmethod
    def _moved(entry: SessionEntry, partition: Partition) -> bool:
        return (
            partition.high_watermark != entry.sent_watermark
            or partition.log.log_start_offset != entry.sent_start
        )

    @staticmethod
    def _offsets(entry: SessionEntry, partition: Partition) -> FetchPartitionResponse:
        entry.sent_watermark = partition.high_watermark
        entry.sent_start = partition.log.log_start_offset
        return FetchPartitionResponse(
            entry.topic_partition.partition,
            0,
            entry.sent_watermark,
            partition.last_stable_offset,
            entry.sent_start,
        )
