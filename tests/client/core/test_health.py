"""While a whole cluster is silent, ``health()`` and the log say so, and say when it is over."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest

from oncelog import Admin, ClientHealth, Consumer, Producer, blocking
from oncelog.config import Address
from oncelog.core.health import SPEAK_MAX_S, Silence
from oncelog.errors import ClosedError
from oncelog_protocol.messages.base import ApiKey
from support.client_threads import in_thread
from support.fake_cluster import Action, FakeCluster
from support.waiting import eventually

FINE = ClientHealth(None, 0.0, ())


def clients(cluster: FakeCluster) -> list[Any]:
    servers = cluster.bootstrap
    return [Producer(servers), Consumer("t", bootstrap_servers=servers), Admin(servers)]


@pytest.mark.parametrize("number", range(3))
async def test_since_when_no_broker_answers(number: int) -> None:
    """A client that nobody uses notices it too; and it is over when any broker is back."""
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        client = clients(cluster)[number]
        async with client:
            addresses = set(cluster.bootstrap.split(","))
            assert client.health() == FINE
            assert client.health().ok
            for broker in cluster.brokers.values():
                await broker.stop()
            await eventually(lambda: not client.health().ok)
            first = client.health()
            await eventually(lambda: {a for a, _ in client.health().reasons} == addresses)
            await eventually(
                lambda: {r for _, r in client.health().reasons} == {"connection refused"}
            )
            later = client.health()
            assert later.silent_s > first.silent_s > 0
            assert first.silent_since_ms is not None
            assert later.silent_since_ms is not None
            now_ms = client._clock.now_ms()
            assert now_ms - 60_000 < later.silent_since_ms <= now_ms
            await cluster.brokers[2].start()
            await eventually(lambda: client.health() == FINE)


async def test_one_broker_of_two_is_no_silence() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, 1)
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            await producer.send("t", b"v")
            await cluster.brokers[1].stop()
            cluster.move_leader("t", 0, 2)
            await producer.send("t", b"w")
            assert producer.health().ok


async def test_who_takes_connections_and_says_nothing_is_silent_too() -> None:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        options = {"request_timeout_ms": 100, "connect_timeout_ms": 100}
        async with Admin(cluster.bootstrap, **options) as admin:  # type: ignore[arg-type]
            hung = cluster.rule(ApiKey.METADATA, Action.HOLD, times=100_000)
            with pytest.raises(TimeoutError):
                await admin.list_topics(timeout_ms=300)
            await eventually(lambda: not admin.health().ok)
            ((_, why),) = admin.health().reasons
            assert "no answer to MetadataRequest" in why
            hung.release.set()
            await eventually(lambda: admin.health().ok)


async def test_the_log_says_so_long_before_calls_end(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        with caplog.at_level(logging.INFO, "oncelog.core.health"):
            async with Producer(cluster.bootstrap, client_id="billing", linger_ms=0) as producer:
                await producer.send("t", b"v")
                await cluster.brokers[1].stop()
                sending = asyncio.create_task(producer.send("t", b"w"))
                await eventually(lambda: "billing: no broker has answered for" in caplog.text)
                assert "connection refused" in caplog.text
                assert not sending.done()
                await cluster.brokers[1].start()
                assert (await sending).offset == 1
                await eventually(lambda: "billing: brokers answer again, after" in caplog.text)


async def test_the_log_hears_of_it_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    silence = Silence("c")
    with caplog.at_level(logging.INFO, "oncelog.core.health"):
        silence.speak()
        silence.ended()
        silence.failed(Address("h", 1), "refused", none_left=False)
        assert silence.health(0) == FINE
        silence.failed(Address("h", 1), "refused", none_left=True)
        begun = silence.since
        assert begun is not None
        silence.failed(Address("h", 1), "reset", none_left=True)
        assert silence.since == begun
        assert silence.reasons == (("h:1", "reset"),)
        spoken: list[int] = []
        for seconds in range(600):
            silence.since = begun - seconds
            silence.speak()
            if len(caplog.records) > len(spoken):
                spoken.append(seconds)
        assert spoken[0] == 1
        gaps = [after - before for before, after in pairwise(spoken)]
        assert gaps == sorted(gaps)
        assert gaps[-1] in (SPEAK_MAX_S, SPEAK_MAX_S + 1)
        silence.ended()
        assert caplog.records[-1].getMessage().startswith("c: brokers answer again, after 599.")
        assert silence.health(5) == FINE


async def test_a_client_that_does_not_run_has_no_health() -> None:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        for client in clients(cluster):
            with pytest.raises(ClosedError):
                client.health()
            async with client:
                assert client.health() == FINE
            with pytest.raises(ClosedError):
                client.health()


async def test_blocking_clients_have_it_too() -> None:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t")

        def work() -> None:
            with blocking.Admin(cluster.bootstrap) as admin:
                assert admin.health() == FINE
            with blocking.Producer(cluster.bootstrap) as producer:
                assert producer.health() == FINE
            with blocking.Consumer("t", bootstrap_servers=cluster.bootstrap) as consumer:
                assert consumer.health() == FINE

        await in_thread(work)
