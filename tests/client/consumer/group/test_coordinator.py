"""These tests find the coordinator and call it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncelog.config import ConnectionOptions
from oncelog.consumer.group import coordinator as module
from oncelog.consumer.group.coordinator import COMMITS, MEMBERSHIP, Coordinator
from oncelog.core.router import Router
from oncelog.errors import (
    CoordinatorNotAvailableError,
    InvalidGroupIdError,
    NotCoordinatorError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import HeartbeatRequest, OffsetFetchRequest
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.tasks import Tasks
from support.fake_cluster import Action
from support.fake_members import GroupCluster
from support.waiting import eventually

BEAT = HeartbeatRequest("g", 1, "m", None)
ASK = OffsetFetchRequest("g", [])


@asynccontextmanager
async def calling(broker_count: int) -> AsyncIterator[tuple[GroupCluster, Coordinator]]:
    async with GroupCluster(broker_count) as cluster:
        options = ConnectionOptions(bootstrap_servers=cluster.bootstrap)
        router = Router(options, entropy=SeededEntropy(1))
        await router.start()
        tasks = Tasks("test")
        try:
            yield cluster, Coordinator(router, "g", tasks)
        finally:
            await tasks.close()
            await router.close()


async def test_it_is_found_once() -> None:
    async with calling(3) as (cluster, coordinator):
        cluster.coordinator.broker_id = 2
        calls = [coordinator.call(ASK, COMMITS, 5) for _ in range(5)]
        assert [(await call).error_code for call in calls] == [0] * 5
        assert coordinator.broker_id == 2
        assert cluster.count(ApiKey.FIND_COORDINATOR) == 1
        assert cluster.count(ApiKey.OFFSET_FETCH, 2) == 5


async def test_membership_and_commits_do_not_wait_for_each_other() -> None:
    async with calling(1) as (cluster, coordinator):
        rule = cluster.rule(ApiKey.HEARTBEAT, Action.HOLD)
        parked = asyncio.ensure_future(coordinator.call_parked(BEAT, 10))
        await eventually(lambda: rule.met)
        assert (await coordinator.call(ASK, COMMITS, 5)).error_code == 0
        rule.release.set()
        await parked


async def test_who_says_that_it_is_none_is_looked_for_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with calling(2) as (cluster, coordinator):
        await coordinator.call(ASK, COMMITS, 5)
        cluster.coordinator.broker_id = 2
        with caplog.at_level(logging.INFO, "oncelog"):
            response = await coordinator.call(ASK, COMMITS, 5)
            assert response.error_code == NotCoordinatorError.code
            known = coordinator.broker_id
            assert known is None
            assert (await coordinator.call(ASK, COMMITS, 5)).error_code == 0
        known = coordinator.broker_id
        assert known == 2
        assert len(caplog.records) == 2, "told when it began and when it was over"


async def test_a_connection_that_breaks() -> None:
    async with calling(2) as (cluster, coordinator):
        await coordinator.call(ASK, COMMITS, 5)
        cluster.rule(ApiKey.OFFSET_FETCH, Action.DROP_BEFORE)
        with pytest.raises(OSError, match=r"."):
            await coordinator.call(ASK, COMMITS, 5)
        assert coordinator.broker_id is None


async def test_nobody_coordinates() -> None:
    async with calling(2) as (cluster, coordinator):
        cluster.coordinator.broker_id = None
        with pytest.raises(CoordinatorNotAvailableError, match="group 'g'"):
            await coordinator.call(ASK, COMMITS, 5)
        assert cluster.count(ApiKey.FIND_COORDINATOR) == 2, "every broker was asked"


async def test_a_refusal_is_told_whatever_others_say() -> None:
    async with calling(2) as (cluster, coordinator):
        cluster.coordinator.broker_id = None
        cluster.rule(ApiKey.FIND_COORDINATOR, Action.ERROR, error=InvalidGroupIdError)
        with pytest.raises(InvalidGroupIdError):
            await coordinator.call(ASK, COMMITS, 5)


async def test_a_coordinator_that_is_not_in_the_metadata() -> None:
    async with calling(2) as (cluster, coordinator):
        cluster.coordinator.broker_id = 9
        with pytest.raises(CoordinatorNotAvailableError, match="broker 9"):
            await coordinator.call(ASK, COMMITS, 5)


async def test_a_silent_broker_is_not_waited_for() -> None:
    async with calling(2) as (cluster, coordinator):
        rule = cluster.rule(ApiKey.FIND_COORDINATOR, Action.HOLD)
        async with asyncio.timeout(4):
            await coordinator.call(ASK, COMMITS, 60)
        assert rule.met == 1


async def test_a_parked_call_hears_that_another_coordinates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WATCH_S", 0.05)
    async with calling(2) as (cluster, coordinator):
        rule = cluster.rule(ApiKey.HEARTBEAT, Action.HOLD)
        call = asyncio.ensure_future(coordinator.call_parked(BEAT, 60))
        await eventually(lambda: rule.met)
        before = cluster.count(ApiKey.FIND_COORDINATOR)
        await eventually(lambda: cluster.count(ApiKey.FIND_COORDINATOR) > before + 1)
        assert not call.done(), "it is still the same"
        cluster.coordinator.broker_id = 2
        with pytest.raises(OSError, match=r"."):
            await asyncio.wait_for(call, 5)


async def test_a_parked_call_that_is_cancelled_does_not_hold_up_the_next() -> None:
    async with calling(1) as (cluster, coordinator):
        rule = cluster.rule(ApiKey.HEARTBEAT, Action.HOLD)
        call = asyncio.ensure_future(coordinator.call_parked(BEAT, 60))
        await eventually(lambda: rule.met)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(5):
            await coordinator.call(BEAT, MEMBERSHIP, 5)
