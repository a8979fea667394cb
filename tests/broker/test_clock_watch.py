"""A broker's clock is held against those of its peers."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.clock_watch import ClockWatch
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.messages.replication import LeaderAndIsrPartition, UpdateMetadataRequest
from oncelog_runtime.checked_clock import CheckedClock
from support.clock import ManualClock
from support.waiting import eventually

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class SaidBefore:
    """Its peers' clocks stand."""

    def __init__(self, *times_ms: int) -> None:
        self.times_ms: list[int] | None = list(times_ms)
        self.told = 0

    async def tell(self) -> None:
        self.told += 1

    async def peers(self) -> list[int] | None:
        return self.times_ms


def image(*replicas: int) -> MetadataImage:
    order = LeaderAndIsrPartition("t", "id", 0, 1, 0, list(replicas), 0, list(replicas), False)
    made = MetadataImage("c")
    made.apply(UpdateMetadataRequest(1, 1, 1, True, [order], []))
    return made


def watch(wall: ManualClock, peers: SaidBefore, cluster: MetadataImage) -> ClockWatch:
    clock = CheckedClock(wall, lambda: 0.0, on_leap=lambda ahead_ms: watched.leapt(ahead_ms))
    watched = ClockWatch(clock, peers, cluster, broker_id=1, interval_ms=300_000)
    return watched


async def test_who_has_replicas_counts_whether_it_is_up_or_not() -> None:
    wall, peers = ManualClock(NOW_MS + 10 * DAY_MS), SaidBefore()
    watched = watch(wall, peers, image(1, 2, 3))
    await watched.round()
    assert peers.told == 1
    assert watched._clock.expiry_ms() == 0, "alone of three"
    peers.times_ms = [NOW_MS, NOW_MS]
    await watched.round()
    assert watched._clock.expiry_ms() == NOW_MS


async def test_before_the_cluster_is_known_nobody_counts_as_alone() -> None:
    wall, peers = ManualClock(NOW_MS + 10 * DAY_MS), SaidBefore()
    watched = watch(wall, peers, MetadataImage("c"))
    await watched.look()
    await watched.round()
    assert watched._clock.expiry_ms() == 0
    peers.times_ms = [NOW_MS, NOW_MS]
    await watched.look()
    assert watched._clock.latest_ms() == NOW_MS, "logs are loaded in the right year"
    peers.times_ms = None
    await watched.look()
    await watched.round()
    assert watched._clock.latest_ms() == NOW_MS


async def test_a_leap_is_told_and_asked_about_at_once(caplog: pytest.LogCaptureFixture) -> None:
    wall, peers = ManualClock(NOW_MS), SaidBefore(NOW_MS, NOW_MS)
    watched = watch(wall, peers, image(1, 2, 3))
    running = asyncio.get_running_loop().create_task(watched.run())
    try:
        await eventually(lambda: watched._clock.is_settled)
        rounds = peers.told
        wall.advance(DAY_MS)
        assert watched._clock.expiry_ms() == NOW_MS
        await eventually(lambda: peers.told > rounds)
        assert "clock_leapt broker_id=1 ahead_s=86400" in caplog.text
    finally:
        running.cancel()
