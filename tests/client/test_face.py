"""Synchronous faces have threads, wait for deliveries, and end."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from oncelog import blocking
from oncelog.errors import (
    ClosedError,
    DeadlineExceededError,
    NoBrokersAvailableError,
    UndeliveredRecordsError,
)
from oncelog_protocol.messages.base import ApiKey
from support.client_threads import client_threads, in_thread
from support.fake_cluster import Action, FakeCluster
from support.waiting import eventually


async def test_a_result_may_be_waited_for_a_while() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        loop = asyncio.get_running_loop()

        def work() -> None:
            with blocking.Producer(cluster.bootstrap, linger_ms=0) as producer:
                delivery = producer.enqueue("t", b"v")
                with pytest.raises(DeadlineExceededError):
                    delivery.result(0.02)
                loop.call_soon_threadsafe(held.release.set)
                assert delivery.result().offset == 0

        await in_thread(work)


async def test_errors_and_ends() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, -1)

        def work() -> None:
            producer = blocking.Producer(cluster.bootstrap, delivery_timeout_ms=50)
            with pytest.raises(UndeliveredRecordsError), producer:
                producer.enqueue("t", b"v")
            with pytest.raises(ClosedError):
                producer.send("t", b"v")
            producer.close()

        await in_thread(work)
        servers = cluster.bootstrap
    with pytest.raises(NoBrokersAvailableError), blocking.Admin(servers):
        pass
    assert not client_threads()


async def test_a_call_from_the_clients_own_thread_would_hang_and_is_refused() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        errors: list[BaseException] = []

        def work() -> None:
            with blocking.Producer(cluster.bootstrap, linger_ms=0) as producer:

                def call_back(_: blocking.Delivery) -> None:
                    try:
                        producer.flush()
                    except RuntimeError as error:
                        errors.append(error)

                producer.enqueue("t", b"v").add_done_callback(call_back)
                producer.flush()
                producer.send("t", b"w")

        await in_thread(work)
        assert len(errors) == 1


async def test_a_dropped_producer_speaks_and_its_thread_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, -1)

        def work() -> None:
            producer = blocking.Producer(cluster.bootstrap, linger_ms=0)
            producer.start()
            producer.enqueue("t", b"v")

        async def drop() -> None:
            await in_thread(work)
            gc.collect()
            await eventually(lambda: not client_threads())
            gc.collect()

        with caplog.at_level(logging.ERROR), pytest.warns(ResourceWarning):
            await drop()
        assert "1 records are not acknowledged" in caplog.text
