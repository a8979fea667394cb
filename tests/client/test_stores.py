"""Records go into SQLite exactly once: the helper and both examples crash in the middle."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from oncelog import Consumer, TopicPartition
from oncelog.errors import ConfigurationError
from oncelog.stores import OffsetTable, ResumeFromStore, StaleOffsetError
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakePartition
from support.fake_members import GroupCluster
from support.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the table


@pytest.mark.parametrize("mark", ["?", "%s"])
def test_offsets_go_forward_and_never_overlap(mark: Any) -> None:
    database = sqlite3.connect(":memory:")
    connection: Any = database if mark == "?" else Formatting(database)
    table = OffsetTable(connection, "job", mark=mark)
    table.create()
    table.create()
    assert table.load([A, B]) == {}
    table.advance(A, 0, 5)
    table.advance(A, 7, 9)  # offsets have gaps: markers, compaction
    with pytest.raises(StaleOffsetError, match="offset 8 is in the store already") as caught:
        table.advance(A, 8, 12)
    assert (caught.value.partition, caught.value.begins) == (A, 8)
    assert table.load([A, B]) == {A: 9}
    other = OffsetTable(connection, "another job", mark=mark)
    assert other.load([A]) == {}
    other.advance(A, 100, 101)
    other.advance(B, 3, 4)
    assert (table.load([A]), other.load([A])) == ({A: 9}, {A: 101})
    database.rollback()
    assert table.load([A]) == {}, "it was the application's transaction"


class Formatting:
    """This driver's parameters are written %s."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def cursor(self) -> Any:
        cursor = self._database.cursor()

        class Cursor:
            def execute(self, statement: str, parameters: Any) -> None:
                assert "?" not in statement
                cursor.execute(statement.replace("%s", "?"), parameters)

            def __getattr__(self, name: str) -> Any:
                return getattr(cursor, name)

        return Cursor()


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a.b.c", "1a", "ä", "x" * 64])
def test_a_table_has_a_plain_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="table"):
        OffsetTable(sqlite3.connect(":memory:"), "job", table=name)


# ---- reading on


async def test_reading_begins_where_the_store_says() -> None:
    async with GroupCluster() as cluster:
        for partition in cluster.create_topic("t", 2):
            fill(partition, 10)
        stored = {A: 4}

        async def slowly(partitions: Any) -> Mapping[TopicPartition, int]:
            await asyncio.sleep(0)
            return stored

        for load in (lambda _: stored, slowly):
            for otherwise, second in (("earliest", 0), ("latest", 10)):
                async with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
                    how: Any = otherwise
                    resume = ResumeFromStore(consumer, load, otherwise=how)
                    await resume.assign([A, B])
                    assert await consumer.position(A) == 4
                    assert await consumer.position(B) == second
                    consumer.seek(A, 9)
                    await resume.resume([A])
                    assert await consumer.position(A) == 4
                    await resume.resume()
        with pytest.raises(ConfigurationError, match="otherwise"):
            ResumeFromStore(consumer, lambda _: stored, otherwise="none")  # type: ignore[arg-type]


# ---- the examples


def fill(partition: FakePartition, count: int, begin: int = 0) -> None:
    numbers = range(begin, begin + count)
    partition.append(
        encode_batch(
            [b"%d" % n for n in numbers], keys=[b"c%d" % (n % 3) for n in numbers], timestamps=0
        )
    )


class Crash(BaseException):
    """The process dies here, so to say; nothing in the application catches it."""


class Dying(sqlite3.Connection):
    """It dies at one of its commits: before it, or after it. ``with`` does not roll back then, as
    nothing is rolled back by a process that is dead: the file is closed as it is."""

    die_at = -1
    after = False
    commits = 0

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        self.commits += 1
        if self.commits == self.die_at and not self.after:
            raise Crash
        result = super().__exit__(kind, error, traceback)
        if self.commits == self.die_at:
            raise Crash
        return result


async def until_it_crashes(
    cluster: GroupCluster, path: Path, name: str, die_at: int, after: bool
) -> bool:
    """Run one life of the example, and return whether it crashed. It ends by itself at the end of
    the topic."""
    module = example(name)
    database = sqlite3.connect(path, factory=Dying)
    database.die_at, database.after = die_at, after
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "heartbeat_interval_ms": 20,
        "max_poll_records": 7,
        "entropy": SeededEntropy(die_at),
    }
    if name == "rows_by_offset":
        options |= {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with Consumer("t", group_id="g", **options) as consumer:
            task = asyncio.create_task(module.copy(consumer, database))
            crashed = await life(consumer, task)
    else:
        async with Consumer(group_id="g", **options) as consumer:
            task = asyncio.create_task(module.add_up(consumer, "t", database))
            crashed = await life(consumer, task)
    database.close()
    return crashed


async def life(consumer: Consumer, task: asyncio.Task[None]) -> bool:
    async def at_the_end() -> None:
        while True:
            await asyncio.sleep(0.005)
            states = consumer._core.subscription.states
            if {A, B} <= states.keys() and all(state.offset == 50 for state in states.values()):
                return

    ending = asyncio.create_task(at_the_end())
    while not (task.done() or ending.done()):
        await asyncio.sleep(0.005)
    for each in (task, ending):
        each.cancel()
    outcome, _ = await asyncio.gather(task, ending, return_exceptions=True)
    return isinstance(outcome, Crash)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["rows_by_offset", "offsets_in_the_store"])
async def test_examples_with_a_crash_at_every_commit(
    tmp_path: Path, name: str, after: bool
) -> None:
    """Each life dies at a later commit than the last one; the last one comes to the end."""
    path = tmp_path / "store.db"
    async with GroupCluster() as cluster:
        for partition in cluster.create_topic("t", 2):
            fill(partition, 50)
        for die_at in range(1, 50):
            if not await until_it_crashes(cluster, path, name, die_at, after):
                break
            for member_id in list(cluster.group().members):
                cluster.group().expel(member_id)
        assert die_at > 3
    check(path, name, 50)


def check(path: Path, name: str, count: int) -> None:
    with sqlite3.connect(path) as database:
        if name == "rows_by_offset":
            rows = database.execute(
                "SELECT partition_number, record_offset, item FROM orders ORDER BY 1, 2"
            ).fetchall()
            assert rows == [(p, n, str(n)) for p in (0, 1) for n in range(count)]
        else:
            found = dict(database.execute("SELECT customer, cents FROM balances").fetchall())
            assert found == {f"c{k}": 2 * sum(range(k, count, 3)) for k in range(3)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows_by_offset", "offsets_in_the_store"])
async def test_examples_killed_as_processes(tmp_path: Path, name: str) -> None:
    """kill -9 while records come in; what comes after goes on, and everything is there once."""
    path = tmp_path / "store.db"
    count = 200
    async with GroupCluster() as cluster:
        partitions = cluster.create_topic("t", 2)
        for life_number in range(4):
            for partition in partitions:
                fill(partition, 50, 50 * life_number)
            cluster.announce()
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                EXAMPLES / f"{name}.py",
                "t",
                path,
                env={**os.environ, "ONCELOG_BOOTSTRAP": cluster.bootstrap},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            try:
                seen = 0
                wanted = 100 if life_number == 3 else 1 + 25 * life_number
                async with asyncio.timeout(30):
                    while seen < wanted:
                        line = await process.stdout.readline()
                        assert line, "it ended by itself"
                        seen += int(line.split()[0])
                        if life_number == 3 and read_through(path, name, count):
                            break
                    if life_number == 3:  # the last one by Ctrl+C: quiet, and well
                        process.send_signal(signal.SIGINT)
                        _, said = await process.communicate()
                        assert (process.returncode, said) == (0, b"")
            finally:
                if process.returncode is None:
                    process.kill()
                await process.communicate()
            for group_id in list(cluster.coordinator.groups):
                group = cluster.group(group_id)
                for member_id in list(group.members):
                    group.expel(member_id)
        check(path, name, count)


def read_through(path: Path, name: str, count: int) -> bool:
    try:
        check(path, name, count)
    except AssertionError:
        return False
    return True


async def test_two_readers_of_one_partition_do_not_count_twice(tmp_path: Path) -> None:
    """One takes itself for the owner though it is not: the store refuses it, and it reads on."""
    module = example("offsets_in_the_store")
    async with GroupCluster() as cluster:
        for partition in cluster.create_topic("t", 2):
            fill(partition, 50)
        tasks: list[asyncio.Task[None]] = []
        databases = [sqlite3.connect(tmp_path / "store.db") for _ in range(2)]
        consumers = [
            Consumer(
                bootstrap_servers=cluster.bootstrap,
                group_id=f"group-{n}",  # as if each were the only one
                max_poll_records=3,
                heartbeat_interval_ms=20,
                entropy=SeededEntropy(n),
            )
            for n in range(2)
        ]
        for consumer, database in zip(consumers, databases, strict=True):
            await consumer.start()
            tasks.append(asyncio.create_task(module.add_up(consumer, "t", database)))
        await eventually(lambda: read_through(tmp_path / "store.db", "sums", 50), timeout_s=20)
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for consumer in consumers:
            await consumer.close()
    check(tmp_path / "store.db", "sums", 50)
