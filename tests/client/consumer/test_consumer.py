"""The public face of reading iterates, knows positions, seeks, pauses, gives columns, and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest

from oncelog import Consumer, Record, TopicPartition
from oncelog.errors import (
    ClientError,
    ClosedError,
    CorruptRecordError,
    NoBrokersAvailableError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.batch import HEADER, HEADER_BYTES, assemble, parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster
from support.histories import ListHistory
from support.waiting import eventually

VALUE_AT = 65
"""The first byte of a batch's first value is here, behind the header and three msgpack headers."""

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(cluster: FakeCluster, sizes: list[int], number: int = 0) -> None:
    """Append batches of these sizes; values are offsets, timestamps ten times that."""
    partition = cluster.partition("t", number)
    for size in sizes:
        offsets = range(partition.next_offset, partition.next_offset + size)
        values = [b"%d" % offset for offset in offsets]
        partition.append(encode_batch(values, timestamps=[10 * offset for offset in offsets]))
    cluster.announce()


@asynccontextmanager
async def reading(cluster: FakeCluster, *topics: str, **options: Any) -> AsyncIterator[Consumer]:
    given = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1), **options}
    names = topics or ("t",)
    async with Consumer(*names, bootstrap_servers=cluster.bootstrap, **given) as consumer:
        yield consumer


async def take(consumer: Consumer, count: int) -> list[Record]:
    found: list[Record] = []
    async for record in consumer:
        found.append(record)
        if len(found) == count:
            break
    return found


async def test_every_record_of_every_partition_in_order() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, [3, 1, 4], 0)
        fill(cluster, [2, 5], 1)
        async with reading(cluster) as consumer:
            records = await take(consumer, 15)
            for tp, count in ((A, 8), (B, 7)):
                offsets = [record.offset for record in records if record[:2] == tp]
                assert offsets == list(range(count))
                assert await consumer.position(tp) == count
            assert await consumer.lag() == {A: 0, B: 0}


async def test_the_position_is_behind_the_record_in_hand() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [3, 3])
        async with reading(cluster) as consumer:
            assert await consumer.position(A) == 0
            async for record in consumer:
                assert await consumer.position(A) == record.offset + 1
                if record.offset == 4:
                    break
            assert await consumer.lag() == {A: 1}
            assert [record.offset for record in await take(consumer, 1)] == [5]


async def test_a_seek_in_the_middle_of_an_iteration_takes_effect_at_once() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [10])
        seen = []
        async with reading(cluster) as consumer:
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == 3:
                    consumer.seek(A, 7)
                if record.offset == 9:
                    if len(seen) > 6:
                        break
                    consumer.seek(A, 9)
        assert seen == [0, 1, 2, 7, 8, 9, 9]


async def test_a_seek_does_not_wait_for_a_long_poll() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [3])
        async with reading(cluster, fetch_max_wait_ms=60_000) as consumer:
            await take(consumer, 3)
            await eventually(lambda: cluster.count(ApiKey.FETCH) == 2)
            consumer.seek(A, 1)
            async with asyncio.timeout(5):
                assert (await consumer.getone()).offset == 1


async def test_a_batch_that_begins_below_the_position_is_cut() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [10, 10])
        async with reading(cluster) as consumer:
            consumer.seek(A, 7)
            assert [record.offset for record in await take(consumer, 5)] == [7, 8, 9, 10, 11]
            consumer.seek(A, 13)
            batch = await consumer.getbatch()
            assert list(batch.offsets) == list(range(13, 20))
            assert batch.values[0] == b"13"
            assert batch.timestamps[0] == 130


async def test_beginning_end_and_times() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, [10], 0)
        fill(cluster, [4], 1)
        async with reading(cluster) as consumer:
            assert await consumer.beginning_offsets([A, B]) == {A: 0, B: 0}
            assert await consumer.end_offsets([A, B]) == {A: 10, B: 4}
            found = await consumer.offsets_for_times({A: 55, B: 55})
            first = found[A]
            assert first is not None
            assert first[:2] == (6, 60)
            assert found[B] is None
            await consumer.seek_to_end()
            assert [await consumer.position(tp) for tp in (A, B)] == [10, 4]
            await consumer.seek_to_beginning(A)
            assert [await consumer.position(tp) for tp in (A, B)] == [0, 4]
            await consumer.seek_to_timestamp(55)
            assert [await consumer.position(tp) for tp in (A, B)] == [6, 4]
            assert await consumer.partitions_for("t") == [A, B]


async def test_pause_and_resume() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, [5, 5], 0)
        fill(cluster, [5], 1)
        async with reading(cluster) as consumer:
            consumer.pause(B)
            assert consumer.paused() == [B]
            records = []
            async for record in consumer:
                records.append(record)
                if len(records) == 3:
                    consumer.pause(A)
                    consumer.resume(B)
                if len(records) == 8:
                    consumer.resume(A)
                if len(records) == 15:
                    break
        assert [(record.partition, record.offset) for record in records] == [
            *((0, n) for n in range(3)),
            *((1, n) for n in range(5)),
            *((0, n) for n in range(3, 10)),
        ]


async def test_assign() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 3)
        for number in range(3):
            fill(cluster, [5], number)
        consumer = Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        with pytest.raises(ClosedError, match="not started"):
            consumer.assign([A])
        async with consumer:
            consumer.assign([A, B])
            consumer.seek(A, 3)
            assert consumer.assignment() == [A, B]
            records = await take(consumer, 7)
            assert sorted(record[1:3] for record in records) == [
                *((0, n) for n in (3, 4)),
                *((1, n) for n in range(5)),
            ]
            consumer.assign([TopicPartition("t", 2)])
            assert (await consumer.getone()).partition == 2
            with pytest.raises(ClientError, match="not assigned"):
                consumer.seek(A, 0)
        async with reading(cluster) as other:
            with pytest.raises(ClientError, match="made with topics"):
                other.assign([A])


async def test_partitions_added_to_a_topic_are_read_from_their_beginning() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with reading(cluster, auto_offset_reset="latest") as consumer:
            assert await consumer.position(A) == 0
            cluster.create_topic("t", 2)
            fill(cluster, [1], 1)
            await consumer._router.refresh()
            assert (await consumer.getone())[:3] == ("t", 1, 0)


async def test_getmany() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        async with reading(cluster) as consumer:
            assert await consumer.getmany(timeout_ms=20) == {}
            assert await consumer.getmany() == {}
            fill(cluster, [3, 3], 0)
            first = await consumer.getmany(max_records=2, timeout_ms=5000)
            assert [record.offset for record in first[A]] == [0, 1]
            assert await consumer.position(A) == 2
            fill(cluster, [4], 1)
            found: list[Record] = []
            while len(found) < 8:
                for records in (await consumer.getmany(timeout_ms=5000)).values():
                    found += records
            assert sorted(r[1:3] for r in found) == [
                *((0, n) for n in range(2, 6)),
                *((1, n) for n in range(4)),
            ]
            with pytest.raises(ValueError, match="max_records"):
                await consumer.getmany(max_records=0)


async def test_getmany_hands_out_what_came_before_an_error_and_then_raises_it() -> None:
    async with FakeCluster() as cluster:
        partition = cluster.create_topic("t")[0]
        fill(cluster, [2, 1])
        damaged = bytearray(partition.batches[1])
        damaged[VALUE_AT] ^= 1
        partition.batches[1] = bytes(damaged)
        async with reading(cluster) as consumer:
            found = await consumer.getmany(timeout_ms=5000)
            assert [record.offset for record in found[A]] == [0, 1]
            with pytest.raises(CorruptRecordError):
                await consumer.getmany(timeout_ms=5000)


async def test_batches_as_columns() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [3, 4])
        async with reading(cluster) as consumer:
            assert (await consumer.getone()).offset == 0
            sizes = []
            async for batch in consumer.batches():
                sizes.append(list(batch.offsets))
                assert await consumer.position(A) == batch.next_offset
                if batch.next_offset == 7:
                    break
            assert sizes == [[1, 2], [3, 4, 5, 6]], "what was read by record is not read again"


async def test_control_batches_are_stepped_over() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [2])
        cluster.partition("t").mark(True, 1, 1)
        fill(cluster, [1])
        cluster.partition("t").mark(False, 1, 2)
        async with reading(cluster) as consumer:
            assert [record.offset for record in await take(consumer, 3)] == [0, 1, 3]
            assert await consumer.getmany(timeout_ms=30) == {}
            assert await consumer.lag() == {A: 0}


@pytest.mark.parametrize("check_crcs", [True, False])
async def test_corruption_is_named_and_can_be_left_out(check_crcs: bool) -> None:
    async with FakeCluster() as cluster:
        partition = cluster.create_topic("t")[0]
        fill(cluster, [2, 1, 1])
        damaged = bytearray(partition.batches[1])
        damaged[VALUE_AT] ^= 1
        partition.batches[1] = bytes(damaged)
        async with reading(cluster, check_crcs=check_crcs) as consumer:
            assert [record.offset for record in await take(consumer, 2)] == [0, 1]
            if not check_crcs:
                assert (await consumer.getone()).value == b"3"
                return
            for _ in range(2):
                with pytest.raises(CorruptRecordError, match="CRC") as caught:
                    await consumer.getone()
                assert (caught.value.topic, caught.value.partition) == A
                assert caught.value.offset == 2
            consumer.seek(A, 3)
            assert (await consumer.getone()).offset == 3


def poison(offset: int) -> bytes:
    """Return a batch of three records whose checksum holds and whose offsets do not grow."""
    good = encode_batch([b"x"] * 3, timestamps=1, base_offset=offset)
    body = msgpack.packb([[b"x"] * 3, None, None, None, [0, 0, 0]])
    return bytes(assemble(parse_header(good), body))


async def test_a_batch_that_does_not_hold_can_be_stepped_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeCluster() as cluster:
        partition = cluster.create_topic("t")[0]
        fill(cluster, [2, 3, 1])
        partition.batches[1] = poison(2)
        async with reading(cluster) as consumer:
            await take(consumer, 2)
            with pytest.raises(CorruptRecordError, match='corrupt_batches="skip"'):
                await consumer.getone()
        async with reading(cluster, corrupt_batches="skip") as consumer:
            assert [record.offset for record in await take(consumer, 3)] == [0, 1, 5]
            assert consumer.metrics().batches_skipped_total == 1
            assert await consumer.position(A) == 6
    assert "the batch at offset 2 does not hold and is left out, up to 4" in caplog.text


@pytest.mark.parametrize("what", ["value", "count"])
async def test_what_is_stepped_over_is_one_batch(what: str) -> None:
    """Where it ends is believed of a damaged batch only if its header says it twice."""
    async with FakeCluster() as cluster:
        partition = cluster.create_topic("t")[0]
        fill(cluster, [1, 2, 2])
        damaged = bytearray(partition.batches[1])
        if what == "count":
            header = parse_header(damaged)
            damaged = bytearray(
                HEADER.pack(*header._replace(last_offset_delta=3)) + damaged[HEADER_BYTES:]
            )
        else:
            damaged[VALUE_AT] ^= 1
        partition.batches[1] = bytes(damaged)
        async with reading(cluster, corrupt_batches="skip") as consumer:
            assert (await consumer.getone()).offset == 0
            if what == "value":
                assert (await consumer.getone()).offset == 3
                return
            with pytest.raises(CorruptRecordError):
                await consumer.getone()
            assert consumer.metrics().batches_skipped_total == 0


async def test_closing_ends_iterations_and_calls() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [5])
        async with reading(cluster) as consumer:
            seen: list[int] = []

            async def iterate() -> None:
                seen.extend([record.offset async for record in consumer])

            async def batches() -> None:
                async for _ in consumer.batches():
                    pass

            tasks = [asyncio.create_task(iterate()), asyncio.create_task(batches())]
            waiting = asyncio.create_task(consumer.getone())
            await eventually(lambda: cluster.count(ApiKey.FETCH) >= 2)
            await consumer.close()
            await asyncio.gather(*tasks)
            await asyncio.gather(waiting, return_exceptions=True)
            for call in (consumer.getone(), consumer.position(A), consumer.getbatch()):
                with pytest.raises(ClosedError):
                    await call
            with pytest.raises(ClosedError):
                consumer.seek(A, 0)


async def test_closing_inside_of_the_loop_ends_it() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [5])
        async with reading(cluster) as consumer:
            seen = []
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == 2:
                    await consumer.close()
            assert seen == [0, 1]


async def test_a_cancelled_read_loses_nothing() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with reading(cluster) as consumer:
            for _ in range(3):
                waiting = asyncio.create_task(consumer.getone())
                await asyncio.sleep(0.005)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            fill(cluster, [2])
            assert [record.offset for record in await take(consumer, 2)] == [0, 1]


async def test_two_readers_share_the_records() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [10] * 10)
        async with reading(cluster) as consumer:
            seen: list[int] = []

            async def read() -> None:
                async for record in consumer:
                    seen.append(record.offset)
                    await asyncio.sleep(0)
                    if len(seen) >= 100:
                        await consumer.close()

            await asyncio.gather(read(), read())
            assert sorted(seen) == list(range(100))


async def test_the_history_holds_what_was_read() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [2, 1])
        history = ListHistory()
        async with reading(cluster, history=history) as consumer:
            consumer.seek(A, 1)
            await take(consumer, 2)
        assert history.events == [
            ("moved", "t", 0, None, "assign"),
            ("moved", "t", 0, 1, "seek"),
            ("invoke", 1, "poll", "t", 0, []),
            ("ok", 1, [1], [b"1"]),
            ("invoke", 2, "poll", "t", 0, []),
            ("ok", 2, [2], [b"2"]),
        ]


async def test_the_history_holds_what_was_handed_out_and_not_what_was_decoded() -> None:
    """It is one batch of five: the application takes two, then one, and seeks away."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, [5])
        history = ListHistory()
        async with reading(cluster, history=history) as consumer:
            consumer.seek(A, 0)
            await consumer.getmany(max_records=2, timeout_ms=5000)
            await consumer.getone()
            consumer.seek(A, 0)
            assert (await consumer.getbatch()).offsets == range(5)
        polled = [event[2] for event in history.events if event[0] == "ok"]
        assert polled == [[0, 1], [2], [0, 1, 2, 3, 4]]
        kinds = [event[0] for event in history.events]
        assert kinds == [
            *("moved", "moved", "invoke", "ok", "invoke", "ok", "moved", "invoke", "ok")
        ]


async def test_starting() -> None:
    async with FakeCluster() as cluster:
        servers = cluster.bootstrap
        with pytest.raises(UnknownTopicOrPartitionError, match="'missing'"):
            async with reading(cluster, "missing"):
                pass
        cluster.create_topic("t")
        async with reading(cluster) as consumer:
            with pytest.raises(ClosedError, match="once"):
                await consumer.start()
            with pytest.raises(ValueError, match="offset"):
                consumer.seek(A, -1)
            with pytest.raises(ValueError, match="timestamp_ms"):
                await consumer.seek_to_timestamp(-1)
    with pytest.raises(NoBrokersAvailableError):
        await Consumer("t", bootstrap_servers=servers).start()
