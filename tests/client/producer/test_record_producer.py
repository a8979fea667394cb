"""The public face of sending knows places, limits, back-pressure, flush, close and cancellation."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from oncelog import Producer
from oncelog.errors import (
    BufferExhaustedError,
    ClosedError,
    ConfigurationError,
    DeadlineExceededError,
    DeliveryTimeoutError,
    MessageTooLargeError,
    NoBrokersAvailableError,
    UndeliveredRecordsError,
    UnknownTopicOrPartitionError,
)
from oncelog.observability.otel import TracedProducer
from oncelog.producer.partitioner import DefaultPartitioner
from oncelog.producer.transactions.sending import Sending
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.batch import parse_header
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.records.decode import decode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.clock import ManualClock
from support.fake_cluster import Action, FakeCluster, values_of
from support.waiting import eventually


def make(cluster: FakeCluster, **options: Any) -> Producer:
    given = {"linger_ms": 0, "entropy": SeededEntropy(1), **options}
    return Producer(cluster.bootstrap, **given)


async def test_send_returns_where_the_record_is() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        async with make(cluster, clock=ManualClock(1234)) as producer:
            metadata = await producer.send("t", b"v", partition=1)
            assert metadata == ("t", 1, 0, 1234)
            stamped = await producer.send("t", b"v", partition=1, timestamp_ms=7)
            assert (stamped.offset, stamped.timestamp_ms) == (1, 7)


async def test_everything_about_a_record_arrives() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, linger_ms=5) as producer:
            await producer.enqueue("t", b"v", timestamp_ms=1)
            await producer.enqueue("t", None, key=b"k", timestamp_ms=2)
            headers = [("h", b"1"), ("h", None)]
            await producer.enqueue("t", b"w", headers=headers, timestamp_ms=3)
            await producer.flush()
        (batch,) = cluster.partition("t").batches
        columns = decode_batch(batch)
        assert columns.values == [b"v", None, b"w"]
        assert columns.keys == [None, b"k", None]
        assert columns.headers == [(), (), (("h", b"1"), ("h", None))]
        assert columns.timestamp_list() == [1, 2, 3]


async def test_keys_keep_their_partition_and_their_order() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 3)
        async with make(cluster) as producer:
            for number in range(60):
                await producer.enqueue("t", b"%d" % number, key=b"k%d" % (number % 7))
            await producer.flush()
        place = DefaultPartitioner().partition
        for number, values in values_of(cluster, "t").items():
            expected = [n for n in range(60) if place("t", b"k%d" % (n % 7), 3) == number]
            assert values == [b"%d" % n for n in expected]


async def test_records_without_keys_fill_one_batch_after_the_other() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 4)
        async with make(cluster, linger_ms=50, batch_size=1000) as producer:
            for _ in range(400):
                await producer.enqueue("t", b"v" * 50)
            await producer.flush()
        batches = [batch for p in cluster.topics["t"] for batch in p.batches]
        assert len(batches) == pytest.approx(400 * 62 / 1000, abs=3)
        assert all(p.batches for p in cluster.topics["t"]), "no partition was left out"


@pytest.mark.parametrize("partitioner", ["round_robin", lambda topic, key, count: 1])
async def test_partitioners_are_asked_once_a_record(partitioner: Any) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 3)
        async with make(cluster, linger_ms=5, partitioner=partitioner) as producer:
            for _ in range(30):
                await producer.enqueue("t", b"v", key=b"same")
            await producer.flush()
        counts = [p.next_offset for p in cluster.topics["t"]]
        assert counts == ([10, 10, 10] if partitioner == "round_robin" else [0, 30, 0])


async def test_a_partitioner_that_chooses_what_is_not_there_is_told() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 3)
        async with make(cluster, partitioner=lambda topic, key, count: 3) as producer:
            with pytest.raises(ValueError, match="chose 3"):
                await producer.send("t", b"v")
            with pytest.raises(ValueError, match="chose 3"):
                await producer.send_many("t", [b"v"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"value": "text"}, TypeError),
        ({"value": bytearray(b"x")}, TypeError),
        ({"value": b"v", "key": 7}, TypeError),
        ({"value": b"v", "timestamp_ms": -5}, ValueError),
        ({"value": b"v", "timestamp_ms": 1.5}, ValueError),
        ({"value": b"v", "headers": [("h", 7)]}, TypeError),
        ({"value": b"v", "headers": [(b"h", b"v")]}, TypeError),
        ({"value": b"v", "headers": [("h", b"")] * 5000}, ValueError),
        ({"value": b"v", "partition": 7}, UnknownTopicOrPartitionError),
        ({"value": b"v", "partition": -1}, UnknownTopicOrPartitionError),
        ({"value": b"v", "partition": True}, UnknownTopicOrPartitionError),
        ({"value": b"v" * 2_000_000}, MessageTooLargeError),
    ],
)
async def test_a_bad_record_is_refused_and_harms_no_other(
    arguments: dict[str, Any], error: Any
) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, linger_ms=20) as producer:
            good = await producer.enqueue("t", b"good")
            with pytest.raises(error):
                await producer.send("t", **arguments)
            assert (await good).offset == 0


async def test_a_topic_that_does_not_exist() -> None:
    async with FakeCluster() as cluster, make(cluster, max_block_ms=200) as producer:
        with pytest.raises((UnknownTopicOrPartitionError, DeadlineExceededError), match="'no'"):
            await producer.send("no", b"v")
        with pytest.raises(UnknownTopicOrPartitionError, match="partitions_for"):
            producer.send_nowait("no", b"v")


async def test_send_nowait() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=1000, buffer_memory=2000) as producer:
            assert await producer.partitions_for("t") == 1
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, times=100)
            deliveries = [producer.send_nowait("t", b"v" * 100) for _ in range(16)]
            with pytest.raises(BufferExhaustedError, match="buffer_memory=2000"):
                _ = [producer.send_nowait("t", b"v" * 100) for _ in range(5)]
            held.release.set()
            await producer.flush()
            assert all(delivery.done() for delivery in deliveries)


async def test_enqueue_waits_for_room_and_memory_stays_bounded() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        options = {"batch_size": 1000, "buffer_memory": 4000}
        async with make(cluster, **options) as producer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, times=1)
            taken = 0

            async def pour() -> None:
                nonlocal taken
                for _ in range(300):
                    await producer.enqueue("t", b"v" * 100)
                    taken += 1

            pouring = asyncio.create_task(pour())
            await eventually(lambda: held.met == 1)
            await eventually(lambda: producer._accumulator.used > 3000)
            await asyncio.sleep(0.02)
            assert taken < 45
            assert producer._accumulator.used <= 4000
            held.release.set()
            await pouring
            await producer.flush()
            assert producer._accumulator.used == 0
        assert sum(p.next_offset for p in cluster.topics["t"]) == 300


async def test_no_room_within_max_block_ms() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = {"batch_size": 1000, "buffer_memory": 1000, "max_block_ms": 50}
        async with make(cluster, **options) as producer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
            with pytest.raises(BufferExhaustedError, match="max_block_ms"):
                _ = [await producer.enqueue("t", b"v" * 100) for _ in range(30)]
            held.release.set()


async def test_a_cancelled_enqueue_took_nothing() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=200, buffer_memory=200) as producer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
            await producer.enqueue("t", b"v" * 150)
            waiting = asyncio.create_task(producer.enqueue("t", b"w" * 150))
            await eventually(lambda: held.met == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            held.release.set()
            await producer.send("t", b"x")
        assert cluster.partition("t").values() == [b"v" * 150, b"x"]


async def test_a_cancelled_send_may_be_written_and_breaks_nothing() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
            sending = asyncio.create_task(producer.send("t", b"v"))
            other = asyncio.create_task(producer.send("t", b"w"))
            await eventually(lambda: held.met == 1)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            held.release.set()
            await other
        assert cluster.partition("t").values() == [b"v", b"w"]


async def test_linger_gathers_and_zero_does_not_wait() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, linger_ms=30) as producer:
            await asyncio.gather(*(producer.send("t", b"v") for _ in range(50)))
        assert len(cluster.partition("t").batches) == 1


async def test_flush_sends_what_lingers() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, linger_ms=3_600_000) as producer:
            delivery = await producer.enqueue("t", b"v")
            await producer.flush(timeout_ms=5000)
            assert delivery.done()
            assert producer.unacknowledged_count == 0
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
            await producer.enqueue("t", b"w")
            assert producer.unacknowledged_count == 1
            with pytest.raises(DeadlineExceededError, match="1 records") as caught:
                await producer.flush(timeout_ms=20)
            assert not caught.value.definite
            held.release.set()


async def test_flush_raises_for_failures_that_nobody_saw() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=MessageTooLargeError)
        async with make(cluster) as producer:
            await producer.enqueue("t", b"v")
            with pytest.raises(UndeliveredRecordsError, match="1 records"):
                await producer.flush()
            await producer.flush()


async def test_close_flushes() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, linger_ms=3_600_000) as producer:
            delivery = await producer.enqueue("t", b"v")
        assert delivery.result().offset == 0
        with pytest.raises(ClosedError):
            await producer.send("t", b"v")
        with pytest.raises(ClosedError):
            await producer.enqueue("t", b"v")
        with pytest.raises(ClosedError):
            await producer.start()


async def test_an_error_in_the_block_is_not_hidden_by_close() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, -1)

        async def fail() -> None:
            async with make(cluster, delivery_timeout_ms=50) as producer:
                await producer.enqueue("t", b"v")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()


async def test_dropping_a_producer_is_not_silent() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        producer = make(cluster, linger_ms=3_600_000)
        await producer.start()
        await producer.enqueue("t", b"v")
        with pytest.warns(ResourceWarning, match="unclosed producer with 1"):
            producer.__del__()
        await producer.close()
        gc.collect()


async def test_not_started_and_nobody_there() -> None:
    async with FakeCluster() as cluster:
        producer = make(cluster)
        with pytest.raises(ClosedError, match="not started"):
            await producer.send("t", b"v")
    with pytest.raises(NoBrokersAvailableError):
        await producer.start()
    await producer.close()
    with pytest.raises(ConfigurationError, match="linger_ms"):
        Producer("a", linger_ms=-1)


async def test_a_batch_never_outgrows_a_request() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = {"batch_size": 8192, "max_request_size": 2048, "linger_ms": 50}
        async with make(cluster, **options) as producer:
            for _ in range(20):
                await producer.enqueue("t", b"v" * 500)
            assert (await producer.send_many("t", [b"v" * 500] * 20)).record_count == 20
            await producer.flush()
        assert all(len(batch) <= 2048 for batch in cluster.partition("t").batches)
        assert cluster.partition("t").next_offset == 40


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
async def test_compression(codec: Any) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        values = [b"%d some text that repeats itself" % n for n in range(200)]
        async with make(cluster, compression_type=codec, linger_ms=20) as producer:
            for value in values:
                await producer.enqueue("t", value)
            await producer.flush()
        assert cluster.partition("t").values() == values
        header = parse_header(cluster.partition("t").batches[0])
        assert header.codec is Codec[codec.upper()]


async def test_partitions_that_were_added_can_be_named() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            await producer.send("t", b"v")
            cluster.create_topic("t", 3)
            assert (await producer.send("t", b"v", partition=2)).partition == 2


async def test_the_deadline_of_delivery_holds_for_what_waits_behind_others() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        options = {"delivery_timeout_ms": 200, "batch_size": 100}
        async with make(cluster, **options) as producer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, times=10)
            deliveries = [await producer.enqueue("t", b"v" * 80, partition=0) for _ in range(9)]
            results = await asyncio.gather(*map(_outcome, deliveries))
            assert all(isinstance(result, DeliveryTimeoutError) for result in results)
            assert not results[0].definite
            assert results[-1].definite
            held.release.set()


async def _outcome(delivery: Any) -> Any:
    try:
        return await delivery
    except DeliveryTimeoutError as error:
        return error


@pytest.mark.parametrize("call", ["send", "enqueue", "send_nowait", "send_many", "enqueue_many"])
async def test_an_option_that_no_call_has_is_refused_by_its_name(call: str) -> None:
    """Whoever forwards options names the wrong one as the producer itself does."""
    producer = Producer("localhost:9092")
    for sends in (producer, TracedProducer("localhost:9092"), Sending(producer)):
        with pytest.raises(TypeError, match=r"\(\) got an unexpected keyword argument 'kye'"):
            await getattr(sends, call)("t", [], kye=b"k")
