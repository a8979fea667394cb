"""Sequence numbers are purely numbering; retries use them against a (scripted) broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import Producer
from oncelog.errors import (
    ApiError,
    ConfigurationError,
    DeliveryTimeoutError,
    InvalidRecordError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
)
from oncelog.producer.partition_queue import (
    NO_IDENTITY,
    NO_PRODUCER,
    SEQUENCE_MAX,
    Batch,
    PartitionQueue,
)
from oncelog.producer.sequence import EPOCH_MAX, Sequences
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    OutOfOrderSequenceNumberError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.batch import parse_header, verify_crc
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.waiting import eventually

# ---------------------------------------------------------------- numbering


def queue() -> PartitionQueue:
    return PartitionQueue(TopicPartition("t", 0), backoff=None)  # type: ignore[arg-type]


def batch(of: PartitionQueue, count: int = 1) -> Batch:
    made = Batch(of, 0.0, 0)
    made.count = count
    made.encoded = encode_batch([b"x"] * count, timestamps=1, sealed=False)
    return made


def numbers(made: Batch) -> tuple[int, int, int]:
    assert made.encoded is not None
    verify_crc(made.encoded)
    header = parse_header(made.encoded)
    assert tuple(made.identity) == (
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )
    return header.producer_id, header.producer_epoch, header.base_sequence


def ready() -> Sequences:
    sequences = Sequences(enabled=True)
    was_ready = sequences.ready
    sequences.given(7, 0)
    assert (was_ready, sequences.ready) == (False, True)
    return sequences


def test_batches_of_one_partition_follow_each_other() -> None:
    sequences, first, second = ready(), queue(), queue()
    made = [batch(first, 3), batch(first), batch(second), batch(first)]
    for each in made:
        sequences.number(each)
    assert [numbers(each) for each in made] == [(7, 0, 0), (7, 0, 3), (7, 0, 0), (7, 0, 4)]


def test_in_transactions_every_epoch_begins_anew_and_only_the_coordinator_raises_it() -> None:
    sequences, of = Sequences(enabled=True, transactional=True), queue()
    made = []
    for epoch in range(2):
        sequences.given(7, epoch)
        for _ in range(2):
            made.append(batch(of, 3))
            sequences.number(made[-1])
    assert [numbers(each) for each in made] == [(7, 0, 0), (7, 0, 3), (7, 1, 0), (7, 1, 3)]
    with pytest.raises(AssertionError):
        sequences.begin_anew(of, made)


def test_a_number_stays() -> None:
    sequences, made = ready(), batch(queue())
    sequences.number(made)
    before = bytes(made.encoded or b"")
    sequences.number(made)
    assert bytes(made.encoded or b"") == before


def test_numbers_wrap() -> None:
    sequences, of = ready(), queue()
    sequences.number(batch(of))
    of.next_sequence = SEQUENCE_MAX
    made = [batch(of, 2), batch(of)]
    for each in made:
        sequences.number(each)
    assert [numbers(each)[2] for each in made] == [SEQUENCE_MAX, 1]


def test_beginning_anew_raises_the_epoch_of_one_partition() -> None:
    sequences, first, second = ready(), queue(), queue()
    lost, left, other = batch(first), batch(first, 2), batch(second)
    for each in (lost, left, other):
        sequences.number(each)
    old = left.encoded
    sequences.begin_anew(first, [left])
    assert left.identity is NO_IDENTITY
    sequences.number(left)
    following = batch(second)
    sequences.number(following)
    assert numbers(left) == (7, 1, 0)
    assert numbers(following) == (7, 0, 1), "that partition is in order"
    assert old is not left.encoded, "the old bytes may still be under way"
    sequences.begin_anew(second, [])
    third = batch(second)
    sequences.number(third)
    assert numbers(third) == (7, 1, 0), "an epoch that is newer than its own will do"


def test_used_up_epochs_need_another_id() -> None:
    sequences, of = Sequences(enabled=True), queue()
    sequences.given(7, EPOCH_MAX)
    made = batch(of)
    sequences.number(made)
    sequences.begin_anew(of, [made])
    assert sequences.producer == NO_PRODUCER
    assert not sequences.ready
    sequences.given(8, 0)
    sequences.number(made)
    assert numbers(made) == (8, 0, 0)


# ---------------------------------------------------------------- against a broker


def make(cluster: FakeCluster, **options: Any) -> Producer:
    given = {"linger_ms": 0, "batch_size": 20, "entropy": SeededEntropy(1), **options}
    return Producer(cluster.bootstrap, **given)


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


@pytest.mark.parametrize("lost_every", [pytest.param(1, marks=pytest.mark.slow), 2, 3, 4, 5, 6])
async def test_lost_acknowledgements_make_no_duplicates(lost_every: int) -> None:
    """[K1]: every k-th answer is lost, five are in flight."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        came = 0

        def is_lost(_: Any) -> bool:
            nonlocal came
            came += 1
            return came % lost_every == 0 and came < 40

        async with make(cluster) as producer:
            await producer.send("t", b"warm")
            cluster.rule(ApiKey.PRODUCE, Action.DROP_AFTER, times=10**6, when=is_lost)
            deliveries = [await producer.enqueue("t", value) for value in numbered(60)]
            found = [(await delivery).offset for delivery in deliveries]
        assert cluster.partition("t").values() == [b"warm", *numbered(60)]
        assert found == list(range(1, 61)), "the offsets that they got the first time"


async def test_send_many_is_idempotent_too() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=200) as producer:
            cluster.rule(ApiKey.PRODUCE, Action.DROP_AFTER, times=3)
            await producer.send_many("t", numbered(500))
        assert cluster.partition("t").values() == numbered(500)


async def test_what_follows_a_refused_batch_is_written_in_order() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            await producer.send("t", b"warm")
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
            deliveries = [await producer.enqueue("t", value) for value in numbered(12)]
            with pytest.raises(InvalidRecordError):
                await deliveries[0]
            await asyncio.gather(*deliveries[1:])
        assert cluster.partition("t").values() == [b"warm", *numbered(12)[1:]]
        headers = [parse_header(each) for each in cluster.partition("t").batches]
        assert [h.producer_epoch for h in headers] == [0] + [1] * 11
        assert len({h.producer_id for h in headers}) == 1


@pytest.mark.parametrize("error", [NotEnoughReplicasError, NotLeaderOrFollowerError])
async def test_a_retriable_refusal_in_the_middle_keeps_the_order(error: type[ApiError]) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            await producer.send("t", b"warm")
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=error, times=2)
            deliveries = [await producer.enqueue("t", value) for value in numbered(12)]
            await asyncio.gather(*deliveries)
        assert cluster.partition("t").values() == [b"warm", *numbered(12)]


async def test_what_may_have_been_written_is_not_written_again_under_another_number() -> None:
    """The first is lost before it gets there and runs out of time; the second got no answer."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, delivery_timeout_ms=60_000) as producer:
            await producer.send("t", b"warm")
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, times=1)
            first, second, third = [await producer.enqueue("t", v) for v in numbered(3)]
            await eventually(lambda: held.met == 1)
            lost = first._batch  # its deadline is over, the others' are not
            lost.deadline = 0.0
            with pytest.raises(DeliveryTimeoutError):
                await first
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=OutOfOrderSequenceNumberError)
            second._batch.maybe_written = True
            for connection in list(cluster.brokers[1].connections):
                connection.abort()
            for sent in (second, third):
                with pytest.raises(OutOfOrderSequenceNumberError) as caught:
                    await sent
                assert not caught.value.definite, "a copy of it may still get there"
            await producer.send("t", b"next")
        assert cluster.partition("t").values() == [b"warm", b"next"]


async def test_sends_wait_for_a_producer_id() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.rule(ApiKey.INIT_PID, Action.ERROR, error=CoordinatorNotAvailableError, times=3)
        async with make(cluster) as producer:
            assert (await producer.send("t", b"x")).offset == 0
        assert cluster.count(ApiKey.INIT_PID) == 4
        assert parse_header(cluster.partition("t").batches[0]).producer_id == 4001


@pytest.mark.parametrize(
    "options", [{"acks": 1}, {"acks": 0}, {"max_in_flight_requests_per_connection": 6}]
)
async def test_other_options_may_speak_against_it(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigurationError, match="enable_idempotence"):
        Producer("localhost:1", enable_idempotence=True, **options)
    caplog.set_level("INFO")
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, **options) as producer:
            await producer.send("t", b"x")
            await producer.flush()
            await eventually(lambda: cluster.partition("t").batches)
        assert parse_header(cluster.partition("t").batches[0]).producer_id == -1
        assert cluster.count(ApiKey.INIT_PID) == 0
    assert "not idempotent" in caplog.text, "KIP-679: it says so"
