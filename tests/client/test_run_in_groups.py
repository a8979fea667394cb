"""``run`` in a group, against real brokers in this process: members come and go, a broker dies,
handlers fail on purpose, records cannot be decoded. Nothing is lost, order is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from oncelog import Admin, Consumer, NewTopic, Producer, Record, Retry, TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from support.cluster import Cluster
from support.waiting import eventually

PARTITIONS = 6
KEYS = 40
COUNT = 4000
PREFIX = "oncelog-dead-letter-"


def value_of(number: int) -> bytes:
    """Every 97th cannot be decoded, every 89th never succeeds, every 53rd at the third attempt."""
    if number % 97 == 0:
        return b"\xff%d" % number
    return b"%d" % number


def is_hopeless(number: int) -> bool:
    return number % 97 != 0 and number % 89 == 0


class Diary:
    """It notes what the handlers of all members did, in order."""

    def __init__(self) -> None:
        self.done: list[tuple[bytes, int]] = []
        self.attempts: dict[int, int] = {}
        self.busy: dict[bytes, int] = {}
        self.overlaps: list[bytes] = []

    async def handle(self, given: tuple[bytes, int]) -> None:
        key, number = given
        if self.busy.get(key):
            self.overlaps.append(key)
        self.busy[key] = self.busy.get(key, 0) + 1
        try:
            await asyncio.sleep(0.001)
            attempt = self.attempts[number] = self.attempts.get(number, 0) + 1
            if is_hopeless(number):
                raise ValueError(f"hopeless {number}")
            if number % 53 == 0 and attempt < 3:
                raise RuntimeError(f"not yet {number}")
            self.done.append(given)
        finally:
            self.busy[key] -= 1


def decode(record: Record) -> tuple[bytes, int]:
    assert record.key is not None
    assert record.value is not None
    return record.key, int(record.value.decode())


class Runner:
    """It is one member that runs."""

    def __init__(self, name: str, bootstrap: str, diary: Diary) -> None:
        self.consumer = Consumer(
            "orders",
            bootstrap_servers=bootstrap,
            client_id=name,
            group_id="billing",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=100,
            entropy=SeededEntropy(name),
        )
        self._diary = diary
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> Runner:
        await self.consumer.start()
        self.task = asyncio.create_task(
            self.consumer.run(
                self._diary.handle,
                concurrency=16,
                retry=Retry(3, backoff_ms=2),
                dead_letter="orders-failed",
                decode=decode,
                max_records_in_flight=200,
            )
        )
        return self

    async def close(self) -> None:
        assert self.task is not None
        await self.consumer.close()
        await self.task

    async def cancel(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.close()


async def produce(bootstrap: str, numbers: Sequence[int]) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send_many(
            "orders",
            [value_of(number) for number in numbers],
            keys=[b"key-%d" % (number % KEYS) for number in numbers],
        )


async def dead_letters(bootstrap: str) -> list[Record]:
    found: list[Record] = []
    async with Consumer(
        "orders-failed", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        while sum((await consumer.lag()).values()):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += records
    return found


async def committed_all(bootstrap: str) -> bool:
    tps = [TopicPartition("orders", number) for number in range(PARTITIONS)]
    async with Consumer(bootstrap_servers=bootstrap, group_id="billing") as consumer:
        ends = await consumer.end_offsets(tps)
        committed = await consumer.committed(tps)
    return ends == {tp: item.offset if item else 0 for tp, item in committed.items()}


@pytest.mark.slow
async def test_members_come_and_go_a_broker_dies_and_nothing_is_lost(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3) as cluster:
        async with Admin(cluster.bootstrap) as admin:
            topics = [
                NewTopic(name, PARTITIONS, 3, {"min_insync_replicas": "2"})
                for name in ("orders", "orders-failed")
            ]
            (await admin.create_topics(topics)).raise_for_errors()
        diary = Diary()
        await produce(cluster.bootstrap, range(COUNT // 2))
        first = await Runner("first", cluster.bootstrap, diary).start()
        await eventually(lambda: len(diary.done) > 300, timeout_s=30)
        second = await Runner("second", cluster.bootstrap, diary).start()
        await eventually(lambda: len(second.consumer.assignment()) == 3, timeout_s=30)
        await produce(cluster.bootstrap, range(COUNT // 2, COUNT))
        third = await Runner("third", cluster.bootstrap, diary).start()
        await eventually(lambda: len(third.consumer.assignment()) == 2, timeout_s=30)
        await second.cancel()
        await cluster.crash_broker(cluster.state("orders").leader)
        await first.close()
        expected = {n for n in range(COUNT) if n % 97 and not is_hopeless(n)}
        await eventually(lambda: {n for _, n in diary.done} == expected, timeout_s=60)
        assert third.task is not None
        assert not third.task.done()
        await third.close()

        assert await committed_all(cluster.bootstrap)
        assert not diary.overlaps, "two records of one key at a time"
        for key in {key for key, _ in diary.done}:
            numbers = list(dict.fromkeys(n for k, n in diary.done if k == key))
            assert numbers == sorted(numbers)
        check_dead_letters(await dead_letters(cluster.bootstrap))


def check_dead_letters(letters: Sequence[Record]) -> None:
    """Each that had to be is there, with its cause, and nothing else."""
    found: dict[int, dict[str, bytes | None]] = {}
    for record in letters:
        assert record.value is not None
        found[int(record.value.removeprefix(b"\xff"))] = dict(record.headers)
    assert found.keys() == {n for n in range(COUNT) if n % 97 == 0 or is_hopeless(n)}
    for number, headers in found.items():
        assert headers[PREFIX + "topic"] == b"orders"
        assert headers[PREFIX + "group"] == b"billing"
        if number % 97 == 0:
            assert headers[PREFIX + "attempts"] == b"0"
            assert headers[PREFIX + "error"] == b"UnicodeDecodeError"
        else:
            assert headers[PREFIX + "attempts"] == b"3"
            assert headers[PREFIX + "message"] == b"hopeless %d" % number
