"""Metrics of requests: counted when begun, parked until answered, forgotten with the connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.metadata import DescribeClusterRequest
from support.hand_records import produce
from support.observed import observed
from support.waiting import eventually


async def test_requests_latencies_errors_and_what_waits(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        await seen.cluster.create_topic("t")
        channel = await seen.cluster.channel(1)
        for _ in range(3):
            await produce(channel, "t", 0, [b"x"])
        await produce(channel, "nowhere", 0, [b"x"])
        await channel.call(DescribeClusterRequest(), timeout_s=5)
        before = await seen.metrics()
        assert before["oncelog_requests_total"]["Produce",] == 4
        assert before["oncelog_request_latency_seconds_count"]["Produce",] == 4
        assert 0 < before["oncelog_request_latency_seconds_sum"]["Produce",] < 30
        assert before["oncelog_request_errors_total"] == {
            ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 1
        }
        assert before["oncelog_connections"]["external",] >= 1
        stats = seen.cluster.brokers[1].dispatcher.stats.of(FetchRequest.api_key)
        assert stats.waiting == 0
        wanted = [FetchTopic("t", [FetchPartition(0, 3, 1 << 20)])]
        fetch = FetchRequest(-1, -1, 20_000, 1, 1 << 20, 0, -1, wanted)
        parked = asyncio.ensure_future(channel.call(fetch, timeout_s=30))
        await eventually(lambda: stats.waiting == 1)
        assert (await seen.metrics())["oncelog_parked_requests"]["Fetch",] == 1
        channel.close()
        await eventually(lambda: stats.waiting == 0)
        assert isinstance((await asyncio.gather(parked, return_exceptions=True))[0], Exception)
        after = await seen.metrics()
        assert after["oncelog_parked_requests"]["Fetch",] == 0
        assert (
            after["oncelog_request_latency_seconds_count"]["Fetch",]
            == after["oncelog_requests_total"]["Fetch",] - 1
        ), "what was given up has no latency"


async def test_nothing_is_measured_without_a_port(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        dispatcher = seen.cluster.brokers[1].dispatcher
        dispatcher.stats.measure_with(None)
        latency = dispatcher.stats.of(DescribeClusterRequest.api_key).latency
        await seen.cluster.call(1, DescribeClusterRequest())
        assert latency.count == 0
        assert dispatcher.stats.of(DescribeClusterRequest.api_key).answered == 1
