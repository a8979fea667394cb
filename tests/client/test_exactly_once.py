"""``run(transactional_id=)`` and read_committed meet real brokers in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncelog import (
    Consumer,
    GroupMetadata,
    Producer,
    ProducerRecord,
    Record,
    TopicPartition,
    TransactionAbortableError,
)
from oncelog_runtime.entropy import SeededEntropy
from support.cluster import Cluster

COUNT = 2400
PARTITIONS = 4
SETTINGS: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
}


async def copy(record: Record) -> ProducerRecord:
    await asyncio.sleep(0.001)
    return ProducerRecord("out", record.value, record.key, partition=record.partition)


class Copier:
    """It copies as one process would, as far as that can be had in this one."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.consumer = Consumer(
            "in",
            bootstrap_servers=bootstrap,
            client_id=name,
            group_id="copiers",
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=100,
            entropy=SeededEntropy(name),
        )
        self.name = name
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Copier:
        await self.consumer.start()
        self.task = asyncio.create_task(
            self.consumer.run(
                copy,
                transactional_id=self.name,
                concurrency=4,
                commit_interval_ms=20,
                transaction_timeout_ms=5_000,
                transaction_records_max=50,
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.consumer.close()
        assert self.task is not None
        await asyncio.wait_for(asyncio.gather(self.task, return_exceptions=True), 30)

    async def crash(self) -> None:
        """Crash in the middle of whatever it does; its partitions are another's at once."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.close()


async def fill(bootstrap: str) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(COUNT):
            await producer.enqueue("in", b"%d" % number, partition=number % PARTITIONS)


async def read_all(bootstrap: str, count: int) -> list[int]:
    consumer = Consumer("out", bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        seen: list[int] = []
        async with asyncio.timeout(30):
            while len(seen) < count or any((await consumer.lag()).values()):
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    seen.extend(int(record.value or b"-1") for record in records)
        return seen


@pytest.mark.slow
async def test_copiers_come_and_go_and_a_broker_dies(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3, **SETTINGS) as cluster:
        for topic in ("in", "out"):
            await cluster.create_topic(
                topic, partitions=PARTITIONS, replication_factor=3, min_insync_replicas=2
            )
        await fill(cluster.bootstrap)
        async with Consumer(bootstrap_servers=cluster.bootstrap, group_id="copiers") as looking:
            tps = [TopicPartition("in", n) for n in range(PARTITIONS)]

            async def until(count: int) -> None:
                async with asyncio.timeout(60):
                    while True:
                        found = await looking.committed(tps)
                        if sum(item.offset for item in found.values() if item) >= count:
                            return
                        await asyncio.sleep(0.02)

            async with Copier("one", cluster.bootstrap), Copier("two", cluster.bootstrap) as two:
                await until(COUNT // 10)
                await two.crash()
                await until(COUNT // 5)
                await cluster.stop_broker(2, clean=False)
                await until(COUNT)
            seen = await read_all(cluster.bootstrap, COUNT)
    assert sorted(seen) == list(range(COUNT))
    for partition in range(PARTITIONS):
        mine = [number for number in seen if number % PARTITIONS == partition]
        assert mine == sorted(mine), "order is kept"


async def test_the_block_with_a_consumer(tmp_path: Path) -> None:
    """Every third block is left by an exception: what it read is read again."""
    async with Cluster(tmp_path, **SETTINGS) as cluster:
        for topic in ("in", "out"):
            await cluster.create_topic(topic, partitions=PARTITIONS)
        await fill(cluster.bootstrap)
        options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
        blocks = 0
        done = 0
        async with (
            Consumer("in", bootstrap_servers=cluster.bootstrap, **options) as consumer,
            Producer(cluster.bootstrap, transactional_id="block") as producer,
        ):
            while done < COUNT:
                blocks += 1
                try:
                    async with producer.transaction(consumer) as txn:
                        taken = await consumer.getmany(max_records=40, timeout_ms=1000)
                        count = 0
                        for records in taken.values():
                            for record in records:
                                count += 1
                                await txn.enqueue("out", record.value, partition=record.partition)
                        if blocks % 3 == 0:
                            raise ValueError("no")
                except ValueError:
                    continue
                done += count
            assert set((await consumer.lag()).values()) == {0}
        seen = await read_all(cluster.bootstrap, COUNT)
    assert sorted(seen) == list(range(COUNT))


async def test_a_producer_dies_with_everything_sent_and_nothing_decided(tmp_path: Path) -> None:
    """Its offsets are not told and its records not read before its time is over (KIP-447); then it
    is as if it had never been. What others wrote behind it waits for that too."""
    async with Cluster(tmp_path, **SETTINGS) as cluster:
        for topic in ("in", "out"):
            await cluster.create_topic(topic, partitions=1)
        tp, out = TopicPartition("in", 0), TopicPartition("out", 0)
        dying = Producer(cluster.bootstrap, transactional_id="x", transaction_timeout_ms=1_500)
        async with Producer(cluster.bootstrap) as other:
            await dying.start()
            await other.send("in", b"0")
            await other.send("out", b"before")
            await dying.begin_transaction()
            await dying.send("out", b"never")
            await dying.send_offsets({tp: 1}, GroupMetadata("g"))
            await other.send("out", b"behind")
            options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
            async with (
                Consumer("out", bootstrap_servers=cluster.bootstrap, **EARLIEST) as reader,
                Consumer("out", bootstrap_servers=cluster.bootstrap, **DIRTY) as dirty,
                Consumer(bootstrap_servers=cluster.bootstrap, **options) as successor,
            ):
                successor.assign([tp])
                first = asyncio.ensure_future(successor.getone())
                assert (await reader.getone()).value == b"before"
                seen = [(await dirty.getone()).value for _ in range(3)]
                assert seen == [b"before", b"never", b"behind"]
                assert await reader.lag() == {out: 0}, "the end is the first open transaction"
                assert await dirty.lag() == {out: 0}
                assert await reader.getmany(timeout_ms=50) == {}
                assert not first.done()
                async with asyncio.timeout(20):
                    assert (await reader.getone()).value == b"behind"
                    assert (await first).value == b"0", "its offset was not committed"
                    # Behind the marker, of which there is one: abort.
                    while await reader.position(out) < 4:
                        await reader.getmany(timeout_ms=20)
                assert await reader.lag() == {out: 0}
        with pytest.raises(TransactionAbortableError):
            await dying.commit_transaction()
        await dying.abort_transaction()
        await dying.close()


EARLIEST: dict[str, Any] = {"auto_offset_reset": "earliest"}
DIRTY: dict[str, Any] = {**EARLIEST, "isolation_level": "read_uncommitted"}
