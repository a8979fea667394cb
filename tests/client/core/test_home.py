"""A client is used where it was started; elsewhere it says at once what is wrong."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oncelog import Admin, Consumer, Producer, TopicPartition, blocking
from oncelog.core.home import Home, running_loop
from oncelog.errors import ClosedError, WrongLoopError
from support.fake_cluster import FakeCluster
from support.waiting import in_thread

ANOTHER_LOOP = "started on another event loop"


def told_in_child(work: Callable[[], object]) -> str:
    """Return what ``work`` raises in a forked process, as text."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which is what we test
        child = os.fork()
    if not child:
        try:
            work()
            said = b"nothing"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}".encode()
        os.write(writer, said)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said.decode()


async def refused(call: Callable[[], Awaitable[object]], match: str) -> None:
    """``call`` on a loop of another thread is refused."""

    await in_thread(asyncio.run, refused_here(call, match))


def test_at_home() -> None:
    home = Home()
    home.check()
    assert running_loop() is None

    async def settle() -> None:
        home.settle()
        home.check()
        await refused(_checking(home), ANOTHER_LOOP)
        with pytest.raises(WrongLoopError, match="another thread"):
            await in_thread(home.check)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(settle())
    home.check()  # the loop stands still: nothing can go wrong
    assert "after a fork" in told_in_child(home.check)
    loop.close()
    with pytest.raises(WrongLoopError, match="is closed"):
        home.check()
    home.leave()
    home.check()


def _checking(home: Home) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        home.check()

    return check


async def test_a_producer_elsewhere() -> None:
    async with FakeCluster() as cluster, Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        assert cluster.create_topic("t")
        delivery = await producer.enqueue("t", b"a")
        # A batch is open: the fast path refuses too, and takes nothing.
        await refused(lambda: producer.enqueue("t", b"b"), ANOTHER_LOOP)
        await refused(lambda: producer.send("t", b"b"), ANOTHER_LOOP)
        await refused(lambda: producer.send_many("t", [b"b"]), ANOTHER_LOOP)
        await refused(lambda: producer.partitions_for("t"), ANOTHER_LOOP)
        await refused(producer.flush, ANOTHER_LOOP)
        await refused(producer.close, ANOTHER_LOOP)

        async def wait() -> None:
            await delivery

        await refused(wait, "a delivery is awaited")
        with pytest.raises(WrongLoopError, match="another thread"):
            await in_thread(producer.send_nowait, "t", b"b")
        assert producer.unacknowledged_count == 1
        await producer.flush()
        assert delivery.result().offset == 0
        await producer.close()
        await in_thread(asyncio.run, _awaited(producer.close))


async def test_a_record_from_another_thread_while_a_task_of_the_clients_loop_runs() -> None:
    async with FakeCluster() as cluster, Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        assert cluster.create_topic("t")
        await producer.enqueue("t", b"a")  # a batch is open
        with ThreadPoolExecutor(1) as pool:
            enqueuing = refused_here(lambda: producer.enqueue("t", b"b"), ANOTHER_LOOP)
            pool.submit(asyncio.run, enqueuing).result(60)  # holds the loop, within this task
        assert producer.unacknowledged_count == 1


async def refused_here(call: Callable[[], Awaitable[object]], match: str) -> None:
    with pytest.raises(WrongLoopError, match=match):
        await call()


async def _awaited(call: Callable[[], Awaitable[Any]]) -> None:
    await call()


async def test_a_consumer_elsewhere() -> None:
    async with FakeCluster() as cluster:
        (partition,) = cluster.create_topic("t")
        async with Producer(cluster.bootstrap) as producer:
            await producer.send_many("t", [b"a", b"b", b"c"])
        assert len(partition.values()) == 3
        options: dict[str, Any] = {"auto_offset_reset": "earliest"}
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **options) as consumer:
            assert (await consumer.getone()).offset == 0
            tp = TopicPartition("t", 0)

            async def iterate() -> None:
                async for _ in consumer:
                    pass

            async def columns() -> None:
                async for _ in consumer.batches():
                    pass

            for call in (iterate, columns, consumer.getone, consumer.getmany, consumer.getbatch):
                await refused(call, ANOTHER_LOOP)
            await refused(lambda: consumer.position(tp), ANOTHER_LOOP)
            await refused(lambda: consumer.run(print), ANOTHER_LOOP)
            await refused(consumer.close, ANOTHER_LOOP)
            with pytest.raises(WrongLoopError, match="another thread"):
                await in_thread(lambda: consumer.assign([tp]))
            assert (await consumer.getone()).offset == 1


async def test_an_admin_elsewhere() -> None:
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        await refused(admin.list_topics, ANOTHER_LOOP)
        await refused(admin.describe_cluster, ANOTHER_LOOP)
        await refused(admin.close, ANOTHER_LOOP)
        assert await admin.list_topics() == []


async def test_a_blocking_client_after_a_fork() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            with blocking.Producer(cluster.bootstrap) as producer:
                producer.send("t", b"a")
                said = told_in_child(lambda: producer.send("t", b"b"))
                assert said.startswith(f"WrongLoopError: the client was started in {_process()}")
                assert told_in_child(producer.close) == "nothing"  # it is not the child's to close
                assert producer.send("t", b"c").offset == 1
            with blocking.Consumer("t", bootstrap_servers=cluster.bootstrap) as consumer:
                assert "after a fork" in told_in_child(lambda: next(iter(consumer)))
                assert "after a fork" in told_in_child(lambda: next(consumer.batches()))
            with pytest.raises(ClosedError):
                producer.send("t", b"d")

        await in_thread(work)


def _process() -> str:
    return f"process {os.getpid()} and is used in process"
