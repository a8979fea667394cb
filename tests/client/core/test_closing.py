"""Each client, on both faces, ends once, and all who ask wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from oncelog import Admin, Consumer, Producer, SharedTransaction, blocking, join
from oncelog.core.closing import Closing
from oncelog.errors import ClosedError, UndeliveredRecordsError
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action, FakeCluster
from support.fake_members import GroupCluster
from support.group_members import make as make_member
from support.waiting import eventually, in_thread


class Work:
    """It is an end that takes until it is told to be over."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> None:
        self.begun += 1
        try:
            await self.gate.wait()
            if self.error is not None:
                raise self.error
        finally:
            self.ended += 1


async def begun(closing: Closing, work: Callable[[], Coroutine[Any, Any, None]], count: int) -> Any:
    tasks = [asyncio.create_task(closing.once(work)) for _ in range(count)]
    await eventually(lambda: len(closing.waiting) == count)
    return tasks


async def test_all_wait_for_one_end() -> None:
    closing, work = Closing("test"), Work()
    noticed: list[int] = []
    closing.notice(lambda: noticed.append(len(closing.waiting)))
    tasks = await begun(closing, work, 3)
    assert noticed == [1, 2, 3]
    work.gate.set()
    await asyncio.gather(*tasks)
    await closing.once(work)
    assert (work.begun, work.ended, closing.waiting) == (1, 1, [])


async def test_all_hear_of_a_failure() -> None:
    closing, work = Closing("test"), Work()
    work.error = ZeroDivisionError("why")
    tasks = await begun(closing, work, 2)
    work.gate.set()
    heard = await asyncio.gather(*tasks, return_exceptions=True)
    assert heard == [work.error, work.error]
    await closing.once(work)


async def test_the_end_goes_on_while_somebody_waits() -> None:
    closing, work = Closing("test"), Work()
    first, second = await begun(closing, work, 2)
    first.cancel()
    await eventually(first.cancelled)
    assert work.ended == 0
    second.cancel()
    await eventually(second.cancelled)
    assert work.ended == 1, "the last one who waited is gone"
    await closing.once(work)
    assert work.begun == 1


async def test_who_is_called_by_the_end_does_not_wait_for_it() -> None:
    closing = Closing("test")

    async def work() -> None:
        await closing.once(work)

    async with asyncio.timeout(10):
        await closing.once(work)


# ------------------------------------------------------------------------------ the clients


def make(cluster: FakeCluster, **options: Any) -> Producer:
    return Producer(cluster.bootstrap, linger_ms=0, **options)


async def test_a_producers_second_close_waits_for_the_acknowledgements() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        async with make(cluster) as producer:
            await producer.enqueue("t", b"v")
            first = asyncio.create_task(producer.close())
            await eventually(lambda: held.met == 1)
            second = asyncio.create_task(producer.close())
            await eventually(lambda: len(producer._closing.waiting) == 2)
            assert not first.done()
            assert not second.done()
            held.release.set()
        assert cluster.partition("t").values() == [b"v"]
        await asyncio.gather(first, second)


async def test_the_earlier_deadline_counts() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, times=100)
        producer = make(cluster)
        await producer.start()
        await producer.enqueue("t", b"v")
        first = asyncio.create_task(producer.close())
        await eventually(lambda: held.met == 1)
        with pytest.raises(UndeliveredRecordsError):
            await producer.close(timeout_ms=0)
        with pytest.raises(UndeliveredRecordsError):
            await first
        held.release.set()


async def test_a_producer_closed_while_it_starts_leaves_nothing_open() -> None:
    async with FakeCluster() as cluster:
        producer = make(cluster)
        held = cluster.rule(ApiKey.METADATA, Action.HOLD)
        starting = asyncio.create_task(producer.start())
        await eventually(lambda: held.met == 1)
        await producer.close()
        held.release.set()
        with pytest.raises(ClosedError):
            await starting
        assert producer._router.closed


async def test_a_members_second_close_waits_until_it_has_left() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", 2)
        held = cluster.rule(ApiKey.LEAVE_GROUP, Action.HOLD)
        async with make_member(cluster, "t") as consumer:
            await consumer.getmany(timeout_ms=10)
            await eventually(lambda: cluster.group().members)
            first = asyncio.create_task(consumer.close())
            await eventually(lambda: held.met == 1)
            second = asyncio.create_task(consumer.close())
            await eventually(lambda: len(consumer._core.closing.waiting) == 2)
            assert not second.done()
            held.release.set()
        assert not cluster.group().members
        await asyncio.gather(first, second)


async def test_a_loop_over_getmany_ends_when_the_consumer_is_closed() -> None:
    """An empty answer would say that nothing came, and the loop would ask again for ever."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        consumer = Consumer("t", bootstrap_servers=cluster.bootstrap)
        await consumer.start()
        assert await consumer.getmany(timeout_ms=10) == {}
        waiting = asyncio.create_task(consumer.getmany(timeout_ms=60_000))
        await eventually(lambda: consumer._core.reader.inside)
        await consumer.close()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ClosedError):
            await consumer.getmany()


async def test_admin_and_writers() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with Admin(cluster.bootstrap) as admin:
            await asyncio.gather(admin.close(), admin.close())
            assert admin._router.closed
        await admin.start()
        await admin.close()
        assert admin._router.closed, "also of its second life"

        txn = await SharedTransaction.begin(
            bootstrap_servers=cluster.bootstrap, transactional_id="etl", tag=0
        )
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        async with await join(txn.ticket, writer="w", linger_ms=0) as writer:
            await writer.enqueue("t", b"v")
            first = asyncio.create_task(writer.close())
            await eventually(lambda: held.met == 1)
            second = asyncio.create_task(writer.close())
            await eventually(lambda: len(writer._producer._closing.waiting) == 2)
            assert not second.done()
            held.release.set()
        assert writer.receipt.writer == "w"
        await asyncio.gather(first, second)
        await txn.commit([writer.receipt])


async def test_the_blocking_faces_second_close_waits_too() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        producer = blocking.Producer(cluster.bootstrap, linger_ms=0)
        waiting = producer._client._closing.waiting
        ended: list[str] = []

        def close(name: str) -> None:
            producer.close()
            ended.append(name)

        def work() -> None:
            with producer:
                producer.enqueue("t", b"v")
                threads = [threading.Thread(target=close, args=(name,)) for name in "ab"]
                for thread in threads:
                    thread.start()
            for thread in threads:
                thread.join()

        working = asyncio.create_task(in_thread(work))
        await eventually(lambda: held.met == 1 and len(waiting) == 3)
        assert ended == []
        held.release.set()
        await working
        assert sorted(ended) == ["a", "b"]
        assert cluster.partition("t").values() == [b"v"]
