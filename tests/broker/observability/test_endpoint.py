"""The HTTP port of a broker: there before the broker is, never in trouble because of its state."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from oncelog_broker.config import ConfigError
from oncelog_broker.observability.endpoint import PATHS, Endpoint
from oncelog_broker.observability.page import MetricsPage
from oncelog_broker.phases import BrokerPhase
from oncelog_protocol.messages.metadata import DescribeClusterRequest
from oncelog_runtime.files import SystemFiles
from oncelog_runtime.observe import precise_time
from support.cluster import Cluster
from support.hand_records import produce
from support.http_get import get, metrics, parse, send
from support.observed import observed
from support.waiting import eventually


@pytest.mark.parametrize("phase", list(BrokerPhase))
async def test_every_path_answers_in_every_phase(tmp_path: Path, phase: BrokerPhase) -> None:
    """The broker has nothing yet: no listeners, no logs, no membership, no cluster."""
    broker = Cluster(tmp_path).make_broker(1)
    broker.phase = phase
    endpoint = Endpoint(broker, precise_time)
    await endpoint.start()
    for path in (*PATHS, "/"):
        assert (await get(endpoint.address, path)).status in (200, 503), path
    assert (await get(endpoint.address, "/livez")).status == 200
    samples = await metrics(endpoint.address)
    assert samples["oncelog_broker_phase"] == {(phase.label,): 1}
    assert set(samples["oncelog_scrape_errors_total"].values()) == {0}
    assert (await get(endpoint.address, "/nothing")).status == 404
    await endpoint.close()
    broker.failed.cancel()


async def test_a_taken_port_is_a_mistake_in_the_settings(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        host, port = seen.endpoints[1].address
        other = Cluster(tmp_path / "other", metrics_port=port).make_broker(1)
        with pytest.raises(ConfigError, match=f"metrics_port: cannot listen on {host}:{port}"):
            await Endpoint(other, precise_time).start()
        other.failed.cancel()


async def test_the_cluster_is_told_where_it_is(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        cluster.add(2)
        broker = cluster.make_broker(2, metrics_port=0)
        endpoint = Endpoint(broker, precise_time)
        try:
            await endpoint.start()
            await broker.start()
            await eventually(lambda: 2 in cluster.brokers[1].image.brokers, what="the second one")
            described = await cluster.call(1, DescribeClusterRequest())
            host, port = endpoint.address
            told = [(each.broker_id, each.state, each.http) for each in described.brokers]
            assert told == [(1, "active", ""), (2, "active", f"{host}:{port}")]
        finally:
            await broker.stop()
            await endpoint.close()


METHODS = {
    ("GET", "/nothing"): 404,
    ("GET", "/livez/"): 404,
    ("GET", "/metrics/../livez"): 404,
    ("HEAD", "/nothing"): 404,
    ("HEAD", "/metrics"): 200,
    ("POST", "/metrics"): 405,
    ("PUT", "/readyz"): 405,
    ("DELETE", "/"): 405,
    ("OPTIONS", "/livez"): 405,
    ("BREW", "/livez"): 405,
}


async def test_paths_and_methods(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        address = seen.endpoints[1].address
        for (method, path), status in METHODS.items():
            got = await get(address, path, method)
            assert got.status == status, (method, path)
            assert ("allow" in got.headers) == (status == 405)
            assert not got.body or method != "HEAD"
        got = await get(address, "/metrics?name=x")
        assert got.status == 200
        assert got.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert got.headers["cache-control"] == "no-store"
        assert (await get(address, "/readyz")).headers["content-type"] == "application/json"


async def test_an_oversized_head_is_refused_and_others_are_served(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        address = seen.endpoints[1].address
        raw = await send(address, b"GET /livez HTTP/1.1\r\nHost: " + b"x" * 1_000_000)
        assert not raw or parse(raw).status == 400
        assert (await get(address, "/livez")).status == 200


async def test_a_failure_is_logged_and_tells_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> list[bytes]:
        raise ValueError("the password is swordfish")

    async with observed(tmp_path) as seen:
        endpoint = seen.endpoints[1]
        endpoint.exposition.scrape = fails  # type: ignore[method-assign]
        with caplog.at_level(logging.ERROR):
            got = await get(endpoint.address, "/metrics")
        assert got.status == 500
        assert "swordfish" not in got.text
        (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert record.getMessage() == "http_request_failed path=/metrics"
        assert "swordfish" in caplog.text
        assert (await get(endpoint.address, "/livez")).status == 200


async def test_who_waits_for_a_page_when_it_closes_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def hangs(_: MetricsPage) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with observed(tmp_path) as seen:
        endpoint = seen.endpoints[1]
        endpoint.exposition.collectors["broker"] = hangs
        asked = asyncio.ensure_future(get(endpoint.address, "/metrics"))
        async with asyncio.timeout(10):
            await begun.wait()
            with caplog.at_level(logging.INFO, "oncelog_broker"):
                await seen.detach(1)
            assert (await asked).status == 503
        assert "Traceback" not in caplog.text


class SlowFiles(SystemFiles):
    """Loading stops at the second partition until it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()

    def size(self, path: str) -> int:
        if "/t-1/" in path:
            assert self.go_on.wait(30)
        return super().size(path)


async def test_recovery_can_be_watched(tmp_path: Path) -> None:
    files = SlowFiles()
    async with Cluster(tmp_path, files=files) as cluster:
        await cluster.create_topic("t", partitions=3)
        channel = await cluster.channel(1)
        for partition in range(3):
            await produce(channel, "t", partition, [b"x"])
        channel.close()
        await cluster.stop_broker(1)
        files.go_on.clear()
        broker = cluster.make_broker(1)
        endpoint = Endpoint(broker, precise_time)
        await endpoint.start()
        starting = broker.tasks.spawn("start", broker.start())
        try:
            await eventually(lambda: broker.logs.progress[0].logs_done == 1)
            got = await get(endpoint.address, "/startupz")
            assert (got.status, got.document["status"]) == (503, "loading")
            assert "log 2 of 3 (" in got.document["reasons"][0]
            assert (await get(endpoint.address, "/readyz")).status == 503
            assert (await get(endpoint.address, "/livez")).status == 200
            samples = await metrics(endpoint.address)
            assert list(samples["oncelog_load_logs"].values()) == [3]
            assert list(samples["oncelog_load_logs_done"].values()) == [1]
        finally:
            files.go_on.set()
        await starting
        assert (await get(endpoint.address, "/startupz")).status == 200
        assert (await get(endpoint.address, "/readyz")).status == 200
        samples = await metrics(endpoint.address)
        assert list(samples["oncelog_load_logs_done"].values()) == [3]
        assert list(samples["oncelog_load_segments_done"].values()) == [3]
        await endpoint.close()
        await broker.stop(clean=False)
