"""Consumers fetch what is committed, when there is enough, or at the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_broker.replication.consumer_fetch import ConsumerFetch
from oncelog_broker.replication.partition import Partition
from oncelog_protocol import limits, schema
from oncelog_protocol.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from oncelog_protocol.messages.fetch import (
    ALL_FORMATS,
    COLUMNS_FORMAT,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from oncelog_protocol.records.batch import KAFKA_MAGIC, iter_headers
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.types import Acks, TopicPartition
from support.replicas import Replicas
from support.waiting import eventually


class Consumer:
    """It is one consumer of a group's leader."""

    def __init__(self, group: Replicas) -> None:
        self.group = group
        self.answers: list[tuple[FetchResponse, bytes]] = []
        self.room = 1 << 20

    def lookup(self, tp: TopicPartition) -> Partition:
        if tp != self.group.leader.partition.topic_partition:
            raise UnknownTopicOrPartitionError
        return self.group.leader.partition

    def fetch(
        self,
        *offsets: int,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_bytes: int = 1 << 20,
        max_wait_ms: int = 10_000,
        isolation: int = 0,
        epoch: int = -1,
        last: int = -1,
        partition: int = 0,
        formats: int = ALL_FORMATS,
    ) -> ConsumerFetch:
        request = FetchRequest(
            -1,
            -1,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation,
            -1,
            [
                FetchTopic(
                    "t",
                    [
                        FetchPartition(partition, offset, partition_bytes, epoch, last)
                        for offset in offsets
                    ],
                )
            ],
            formats=formats,
        )
        return ConsumerFetch.start(
            request,
            self._respond,
            lookup=self.lookup,
            deadlines=self.group.deadlines,
            now=asyncio.get_running_loop().time(),
            room=lambda: self.room,
        )

    def _respond(self, message: Any, payload: Sequence[Any] = ()) -> None:
        data = b"".join(payload)
        assert schema.span_fault(message, len(data)) == ""
        self.answers.append((message, data))

    def one(self) -> FetchPartitionResponse:
        assert len(self.answers) == 1
        answer: FetchPartitionResponse = self.answers[0][0].topics[0].partitions[0]
        return answer

    def values(self) -> list[bytes | None]:
        values: list[bytes | None] = []
        data = memoryview(self.answers[-1][1])
        for position, header in iter_headers(data):
            values += decode_batch(data[position : position + header.size_bytes]).values
        return values


async def test_committed_records_are_answered_at_once() -> None:
    group = Replicas()
    group.produce(b"a", b"b")
    group.replicate()
    consumer = Consumer(group)
    consumer.fetch(0)
    assert consumer.values() == [b"a", b"b"]
    answer = consumer.one()
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (2, 2, 0)


async def test_a_consumer_gets_batches_of_formats_that_it_understands() -> None:
    group = Replicas()
    group.produce(b"a")
    kafkas = memoryview(encode_batch([b"b"], timestamps=0, magic=KAFKA_MAGIC))
    leader = group.leader.partition
    leader.append_as_leader(kafkas, Acks.ALL, group.now, magic=KAFKA_MAGIC)
    group.produce(b"c")
    group.replicate()
    for offset, values in ((0, [b"a"]), (2, [b"c"])):
        old = Consumer(group)
        old.fetch(offset, formats=COLUMNS_FORMAT)
        assert old.values() == values
    old = Consumer(group)
    old.fetch(1, formats=COLUMNS_FORMAT)
    assert old.one().error_code == UnsupportedVersionError.code
    of_today = Consumer(group)
    of_today.fetch(0)
    assert of_today.values() == [b"a", b"b", b"c"]


async def test_nobody_reads_past_the_high_watermark() -> None:
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    group.produce(b"b")
    group.sync()
    consumer = Consumer(group)
    consumer.fetch(0, max_wait_ms=0)
    assert consumer.values() == [b"a"]


async def test_parked_until_the_high_watermark_moves() -> None:
    group = Replicas()
    consumer = Consumer(group)
    consumer.fetch(0)
    group.produce(b"a")
    await asyncio.sleep(0)
    assert consumer.answers == []
    group.replicate()
    await asyncio.sleep(0)
    assert consumer.values() == [b"a"]
    assert group.leader.partition._readers.keys().isdisjoint([consumer])
    assert len(group.deadlines) == 0


async def test_min_bytes_are_waited_for() -> None:
    group = Replicas()
    consumer = Consumer(group)
    consumer.fetch(0, min_bytes=10_000)
    group.produce(b"a" * 6000)
    group.replicate()
    for _ in range(3):
        await asyncio.sleep(0.005)
    assert consumer.answers == []
    group.produce(b"b" * 6000)
    group.replicate()
    await eventually(lambda: consumer.answers)
    assert len(consumer.values()) == 2


async def test_min_bytes_are_not_waited_for_where_an_older_segment_ends() -> None:
    group = Replicas()
    consumer = Consumer(group)
    group.produce(b"a" * 6000)
    group.leader.partition.log.roll()
    group.produce(b"b" * 6000)
    group.replicate()
    consumer.fetch(0, min_bytes=10_000)
    assert consumer.values() == [b"a" * 6000], "there is more, for the next fetch"
    consumer.answers.clear()
    consumer.fetch(1, min_bytes=10_000)
    assert consumer.answers == [], "of the active segment there is not enough yet"


async def test_the_deadline_brings_what_there_is() -> None:
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    consumer = Consumer(group)
    consumer.fetch(0, min_bytes=10_000, max_wait_ms=10)
    assert consumer.answers == []
    await eventually(lambda: consumer.answers)
    assert consumer.values() == [b"a"]


async def test_the_first_batch_is_whole_whatever_the_limits() -> None:
    group = Replicas()
    group.produce(b"a" * 500, b"b" * 500)
    group.replicate()
    consumer = Consumer(group)
    consumer.fetch(0, 1, max_bytes=0, partition_bytes=0)
    assert consumer.values() == [b"a" * 500]


async def test_partition_bytes_bound_each_partition() -> None:
    group = Replicas()
    group.produce(*[b"a" * 500] * 4)
    group.replicate()
    size = len(group.leader.partition.log.read(0, 1, upto=4))
    consumer = Consumer(group)
    consumer.fetch(0, partition_bytes=2 * size + 10)
    assert len(consumer.values()) == 2


@pytest.mark.parametrize(
    ("offset", "epoch", "error"),
    [
        (-1, -1, OffsetOutOfRangeError),
        (99, -1, OffsetOutOfRangeError),
        (0, 0, FencedLeaderEpochError),
    ],
)
async def test_errors_are_answered_at_once(offset: int, epoch: int, error: type[Exception]) -> None:
    group = Replicas()
    group.elect(1)
    consumer = Consumer(group)
    consumer.fetch(offset, epoch=epoch)
    assert consumer.one().error_code == error.code  # type: ignore[attr-defined]


async def test_unknown_partitions_and_lost_leadership() -> None:
    group = Replicas()
    consumer = Consumer(group)
    consumer.fetch(0, partition=7)
    assert consumer.one().error_code == UnknownTopicOrPartitionError.code
    consumer = Consumer(group)
    consumer.fetch(0)
    partition = group.leader.partition
    group.elect(2, to=[1])
    consumer.lookup = lambda tp: partition  # type: ignore[method-assign]
    group.leader_id = 1
    await asyncio.sleep(0)
    assert consumer.one().error_code == NotLeaderOrFollowerError.code


async def test_a_consumer_whose_log_was_cut_is_told_where() -> None:
    group = Replicas()
    group.produce(b"a")
    group.elect(1)
    group.produce(b"b")
    group.replicate()
    consumer = Consumer(group)
    consumer.fetch(2, last=0)
    answer = consumer.one()
    assert answer.diverging is not None
    assert (answer.diverging.leader_epoch, answer.diverging.end_offset) == (0, 1)


@pytest.mark.parametrize(
    "bounds",
    [{"max_bytes": -1}, {"min_bytes": -1}, {"max_wait_ms": -1}, {"isolation": 7}],
)
async def test_bounds_that_make_no_sense_are_refused(bounds: dict[str, int]) -> None:
    consumer = Consumer(Replicas())
    with pytest.raises(InvalidRequestError):
        consumer.fetch(0, **bounds)


async def test_huge_bounds_are_cut() -> None:
    group = Replicas()
    consumer = Consumer(group)
    fetch = consumer.fetch(0, min_bytes=2**31 - 1, max_bytes=2**31 - 1, max_wait_ms=10**9)
    assert fetch._min_bytes == limits.FETCH_BYTES_MAX
    assert fetch._deadline_s <= asyncio.get_running_loop().time() + limits.FETCH_WAIT_MS_MAX / 1000
    fetch.close()


async def test_closing_leaves_nothing_behind() -> None:
    group = Replicas()
    consumer = Consumer(group)
    fetch = consumer.fetch(0)
    fetch.close()
    group.produce(b"a")
    group.replicate()
    await asyncio.sleep(0)
    assert consumer.answers == []
    assert len(group.deadlines) == 0
    assert group.leader.partition._readers.keys().isdisjoint([fetch])


def transact(group: Replicas, pid: int, *values: bytes, sequence: int = 0) -> None:
    """Append one batch of an open transaction of ``pid``, at epoch 1, to all replicas."""
    partition = group.leader.partition
    batch = encode_batch(
        list(values),
        timestamps=1,
        producer_id=pid,
        producer_epoch=1,
        base_sequence=sequence,
        transactional=True,
    )
    guard = partition.log.producers.take_guard(pid, 1)
    partition.append_as_leader(memoryview(batch), Acks.ALL, group.now, guard)
    group.replicate()


def end(group: Replicas, pid: int, *, commit: bool) -> None:
    """Append its marker to all replicas."""
    group.leader.partition.append_marker(commit, pid, 2, 0, group.now)
    group.replicate()


async def test_read_committed_ends_at_the_last_stable_offset() -> None:
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    transact(group, 7, b"b", b"c")
    group.produce(b"d")
    group.replicate()
    for isolation, values in ((1, [b"a"]), (0, [b"a", b"b", b"c", b"d"])):
        consumer = Consumer(group)
        consumer.fetch(0, isolation=isolation, max_wait_ms=0)
        assert consumer.values() == values
        answer = consumer.one()
        assert (answer.high_watermark, answer.last_stable_offset) == (4, 1)
        assert answer.aborted is None


async def test_read_committed_is_woken_by_the_end_of_a_transaction() -> None:
    group = Replicas()
    transact(group, 7, b"b")
    consumer = Consumer(group)
    consumer.fetch(0, isolation=1)
    group.produce(b"c")
    group.replicate()
    await asyncio.sleep(0)
    assert consumer.answers == []
    end(group, 7, commit=True)
    await asyncio.sleep(0)
    assert consumer.one().last_stable_offset == 3
    assert consumer.values()[:2] == [b"b", b"c"]
    assert consumer.one().aborted is None


async def test_read_committed_does_not_look_while_a_transaction_keeps_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Replicas()
    transact(group, 7, b"b")
    consumer = Consumer(group)
    looks = 0
    read = Partition.read_for_consumer

    def counted(self: Partition, *arguments: Any, **more: Any) -> Any:
        nonlocal looks
        looks += 1
        return read(self, *arguments, **more)

    monkeypatch.setattr(Partition, "read_for_consumer", counted)
    consumer.fetch(0, isolation=1)
    assert looks == 1
    for _ in range(5):
        group.produce(b"c")
        group.replicate()
        await asyncio.sleep(0)
    assert looks == 1
    end(group, 7, commit=True)
    await asyncio.sleep(0)
    assert consumer.values()[:6] == [b"b"] + [b"c"] * 5


async def test_aborted_transactions_are_named_if_they_touch_what_is_sent() -> None:
    group = Replicas()
    transact(group, 7, b"a")  # 0
    transact(group, 8, b"b")  # 1
    end(group, 7, commit=False)  # 2
    end(group, 8, commit=True)  # 3
    transact(group, 9, b"x" * 1000)  # 4
    end(group, 9, commit=False)  # 5

    def named(offset: int, *, isolation: int = 1, max_bytes: int = 1 << 20) -> list[Any] | None:
        consumer = Consumer(group)
        consumer.fetch(offset, isolation=isolation, max_bytes=max_bytes, max_wait_ms=0)
        aborted = consumer.one().aborted
        return aborted and [(each.producer_id, each.first_offset) for each in aborted]

    assert named(0) == [(7, 0), (9, 4)]
    assert named(0, isolation=0) is None
    assert named(0, max_bytes=300) == [(7, 0)]
    assert named(2) == [(7, 0), (9, 4)]
    assert named(3) == [(9, 4)]
    assert named(5) == [(9, 4)]
    assert named(6) is None
    assert named(3, max_bytes=1) in (None, [])


async def test_an_answer_is_cut_to_the_room_that_there_is() -> None:
    group = Replicas()
    group.produce(b"a" * 1000)
    group.produce(b"b" * 1000)
    group.replicate()
    consumer = Consumer(group)
    consumer.room = 1500
    consumer.fetch(0, min_bytes=2000)
    assert consumer.values() == [b"a" * 1000]


async def test_without_room_nothing_is_read_until_there_is_some() -> None:
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    consumer = Consumer(group)
    consumer.room = 0
    consumer.fetch(0)
    assert consumer.answers == []
    consumer.room = 1000
    await eventually(lambda: len(consumer.answers) == 1)
    assert consumer.values() == [b"a"]


async def test_without_room_the_deadline_brings_an_empty_answer() -> None:
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    consumer = Consumer(group)
    consumer.room = 0
    consumer.fetch(0, max_wait_ms=20)
    await eventually(lambda: len(consumer.answers) == 1)
    assert consumer.values() == []
    assert consumer.one().error_code == 0


async def rotten(isr: list[int], position: int = 63) -> tuple[Consumer, list[int]]:
    """Make a leader whose second batch rots unseen; return where each batch begins."""
    group = Replicas(isr=isr)
    for value in (b"a", b"b", b"c"):
        group.produce(value)
    if 2 in isr:
        group.replicate(2)
    group.sync(1)
    log = group[1].partition.log
    group[1].files.corrupt(log.segments.active.path, log.size_bytes // 3 + position)
    return Consumer(group), [0, 1, 2]


@pytest.mark.parametrize("position", [pytest.param(10, id="length"), pytest.param(63, id="body")])
async def test_a_batch_that_is_asked_for_alone_is_looked_at(position: int) -> None:
    """Rot in a body is not seen by who sends it; the consumer sees it, and asks again."""
    consumer, offsets = await rotten([1, 2], position)
    leader = consumer.group[1].partition
    consumer.fetch(offsets[0])
    assert consumer.one().error_code == 0
    consumer.answers.clear()
    consumer.fetch(offsets[0], partition_bytes=1)
    assert consumer.values() == [b"a"], "it holds"
    consumer.answers.clear()
    consumer.fetch(offsets[1], partition_bytes=1)
    assert consumer.one().error_code == NotLeaderOrFollowerError.code, "ask the next leader"
    assert leader.log.needs_refetch
    again = consumer.group.elect(1, to=[])
    again.leader_epoch = leader.leader_epoch
    assert consumer.group.deliver(again, 1) != 0, "that is how the controller hears"


async def test_a_leader_that_is_alone_says_that_a_batch_has_rotted() -> None:
    consumer, offsets = await rotten([1])
    consumer.fetch(offsets[1], partition_bytes=1)
    assert consumer.one().error_code == CorruptMessageError.code
    assert consumer.group[1].partition.repair.corruption
    consumer.answers.clear()
    consumer.fetch(offsets[2], partition_bytes=1)
    assert consumer.values() == [b"c"]
