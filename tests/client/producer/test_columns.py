"""Lists of records are spread, cut, acknowledged as a whole, or refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import Producer
from oncelog.errors import (
    DeliveryTimeoutError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    PartialSendError,
    UndeliveredRecordsError,
)
from oncelog.producer.partitioner import DefaultPartitioner
from oncelog_protocol.errors import InvalidRecordError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.decode import decode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.clock import ManualClock
from support.fake_cluster import Action, FakeCluster, values_of
from support.waiting import eventually


def make(cluster: FakeCluster, **options: Any) -> Producer:
    return Producer(cluster.bootstrap, **{"entropy": SeededEntropy(1), **options})


def check(cluster: FakeCluster, metadata: Any, values: list[Any]) -> None:
    """Each record is where the metadata says, and nowhere else."""
    written = values_of(cluster, metadata.topic)
    positions = list(metadata.positions())
    assert sorted(row for row, _, _ in positions) == list(range(len(values)))
    for row, partition, offset in positions:
        assert written[partition][offset] == values[row]
    assert sum(map(len, written.values())) == len(values)


async def test_lists_are_spread_over_all_partitions() -> None:
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t", 6)
        values = [b"%06d" % number for number in range(5000)]
        async with make(cluster, batch_size=2000, clock=ManualClock(77)) as producer:
            metadata = await producer.send_many("t", values)
            assert metadata.record_count == 5000
        check(cluster, metadata, values)
        for partition in cluster.topics["t"]:
            assert partition.batches
            assert partition.values() == sorted(partition.values(), key=lambda v: v or b"")
        assert decode_batch(cluster.partition("t").batches[0]).base_timestamp == 77


async def test_keys_go_where_they_belong_in_order() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 4)
        keys = [None if n % 10 == 0 else b"k%d" % (n % 23) for n in range(1000)]
        values: list[bytes | None] = [b"%06d" % n for n in range(1000)]
        values[5] = None
        async with make(cluster, batch_size=500) as producer:
            metadata = await producer.send_many("t", values, keys=keys)
        check(cluster, metadata, values)
        place = DefaultPartitioner().partition
        for row, partition, _ in metadata.positions():
            assert keys[row] is None or place("t", keys[row], 4) == partition


async def test_one_partition_headers_and_timestamps() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        headers = [[("n", b"%d" % n)] if n % 2 else None for n in range(10)]
        async with make(cluster, batch_size=100) as producer:
            await producer.send_many(
                "t",
                [b"v"] * 10,
                headers=headers,
                timestamps_ms=list(range(10)),
                partition=1,
            )
        columns = [decode_batch(batch) for batch in cluster.partition("t", 1).batches]
        assert len(columns) > 1
        found = [h for c in columns for h in (c.headers or [()] * len(c))]
        assert found == [tuple(h) if h else () for h in headers]
        assert [t for c in columns for t in c.timestamp_list()] == list(range(10))


async def test_nothing_to_send() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            metadata = await producer.send_many("t", [])
        assert metadata.record_count == 0
        assert cluster.count(ApiKey.PRODUCE) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"values": [b"a", "b"]}, TypeError),
        ({"values": [b"a"], "keys": [7]}, TypeError),
        ({"values": [b"a", b"b"], "keys": [b"k"]}, ValueError),
        ({"values": [b"a"], "timestamps_ms": [1, 2]}, ValueError),
        ({"values": [b"a"], "headers": []}, ValueError),
        ({"values": [b"a" * 2_000_000]}, MessageTooLargeError),
    ],
)
async def test_bad_columns_send_nothing(arguments: dict[str, Any], error: Any) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            with pytest.raises(error):
                await producer.send_many("t", **arguments)
        assert cluster.partition("t").next_offset == 0


async def test_what_was_enqueued_before_stays_before() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, linger_ms=3_600_000) as producer:
            await producer.enqueue("t", b"first")
            await producer.send_many("t", [b"second", b"third"])
        assert cluster.partition("t").values() == [b"first", b"second", b"third"]


async def test_memory_is_bounded_while_a_long_list_goes_out() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=1000, buffer_memory=5000) as producer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
            sending = asyncio.create_task(producer.send_many("t", [b"v" * 100] * 1000))
            await eventually(lambda: held.met == 1)
            await asyncio.sleep(0.02)
            assert producer._accumulator.used <= 5000
            held.release.set()
            assert (await sending).record_count == 1000


async def test_a_retry_keeps_the_order_of_the_list() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        values = [b"%06d" % number for number in range(500)]
        async with make(cluster, batch_size=500) as producer:
            await producer.send_many("t", [b"warm"])
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotLeaderOrFollowerError, times=5)
            metadata = await producer.send_many("t", values)
            assert metadata.record_count == 500
        assert cluster.partition("t").values() == [b"warm", *values]


async def test_what_failed_and_what_did_not() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        keys = [b"%d" % number for number in range(40)]
        place = DefaultPartitioner().partition
        first = [row for row, key in enumerate(keys) if place("t", key, 2) == 0]
        cluster.move_leader("t", 0, -1)
        async with make(cluster, delivery_timeout_ms=100) as producer:
            with pytest.raises(PartialSendError) as caught:
                await producer.send_many("t", [b"v"] * 40, keys=keys)
        ((rows, error),) = caught.value.failures
        assert list(rows) == first
        assert isinstance(error, DeliveryTimeoutError)
        assert caught.value.definite
        assert caught.value.written.record_count == 40 - len(first)


async def test_lists_put_in_line_one_after_the_other_keep_their_order() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        keys = [b"k%d" % (number % 7) for number in range(3000)]
        async with make(cluster, batch_size=2000) as producer:
            for start in range(0, 3000, 500):
                values = [b"%06d" % number for number in range(start, start + 500)]
                await producer.enqueue_many("t", values, keys=keys[start : start + 500])
            await producer.enqueue_many("t", [b"%06d" % 3000], partition=0, timestamps_ms=[5])
            await producer.flush()
            assert producer.unacknowledged_count == 0
        written = values_of(cluster, "t")
        partitioner = DefaultPartitioner()
        for number, found in written.items():
            belongs = [
                b"%06d" % row
                for row in range(3000)
                if partitioner.partition("t", keys[row], 2) == number
            ]
            assert found == belongs + [b"%06d" % 3000] * (number == 0)


async def test_flush_tells_of_a_list_that_was_put_in_line_and_failed() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
            await producer.enqueue_many("t", [b"v"] * 3)
            with pytest.raises(UndeliveredRecordsError):
                await producer.flush()
            with pytest.raises(ValueError, match="keys"):
                await producer.enqueue_many("t", [b"v"], keys=[])
            with pytest.raises(MessageTooLargeError):
                await producer.enqueue_many("t", [bytes(2_000_000)])
