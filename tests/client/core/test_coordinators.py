"""Coordinators are found, remembered, forgotten when they are wrong, and awaited while they
load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncelog.config import ConnectionOptions
from oncelog.core.coordinators import Coordinators, refused_at_top
from oncelog.core.router import Router
from oncelog.errors import DeadlineExceededError, RequestTimedOutError
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    NotCoordinatorError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import (
    COORDINATOR_TRANSACTION,
    DescribeGroupsRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from oncelog_protocol.messages.transactions import InitPidRequest
from oncelog_runtime.entropy import SeededEntropy
from support.admin_cluster import AdminCluster, KnownGroup
from support.fake_cluster import Action, FakeCluster


@asynccontextmanager
async def found(cluster: AdminCluster) -> AsyncIterator[tuple[Router, Coordinators]]:
    options = ConnectionOptions(bootstrap_servers=cluster.bootstrap, request_timeout_ms=2000)
    router = Router(options, entropy=SeededEntropy(1))
    await router.start()
    try:
        yield router, Coordinators(router)
    finally:
        await router.close()


def within(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


def asking(group: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(group, None)


async def test_asked_once_and_remembered() -> None:
    async with AdminCluster(3) as cluster, found(cluster) as (_, coordinators):
        cluster.known_groups["g"] = KnownGroup(3)
        assert coordinators.known("g") is None
        await coordinators.call("g", asking("g"), within(5))
        await coordinators.call("g", asking("g"), within(5))
        assert coordinators.known("g") == 3
        assert cluster.count(ApiKey.FIND_COORDINATOR) == 1
        assert cluster.count(ApiKey.OFFSET_FETCH, 3) == 2
        coordinators.forget("g")
        coordinators.learn("g", 2)
        assert coordinators.known("g") == 2


async def test_one_that_is_deposed_is_asked_for_again() -> None:
    async with AdminCluster(2) as cluster, found(cluster) as (_, coordinators):
        cluster.known_groups["g"] = KnownGroup(1)
        await coordinators.call("g", asking("g"), within(5))
        cluster.known_groups["g"].coordinator = 2
        answer = await coordinators.call("g", asking("g"), within(5))
        assert answer.error_code == 0
        assert coordinators.known("g") == 2


async def test_one_that_dies_is_asked_for_again() -> None:
    async with AdminCluster(2) as cluster, found(cluster) as (_, coordinators):
        cluster.known_groups["g"] = KnownGroup(2)
        await coordinators.call("g", asking("g"), within(5))
        await cluster.brokers[2].stop()
        cluster.known_groups["g"].coordinator = 1
        await coordinators.call("g", asking("g"), within(5))
        assert coordinators.known("g") == 1


async def test_one_that_loads_is_waited_for() -> None:
    async with AdminCluster(1) as cluster, found(cluster) as (_, coordinators):
        cluster.known_groups["g"] = KnownGroup(1)
        error = CoordinatorLoadInProgressError
        cluster.rule(ApiKey.OFFSET_FETCH, Action.ERROR, error=error, times=3)
        await coordinators.call("g", asking("g"), within(5))
        assert cluster.count(ApiKey.FIND_COORDINATOR) == 1, "it is the right one nevertheless"
        assert cluster.count(ApiKey.OFFSET_FETCH) == 4


async def test_none_at_the_moment_is_waited_for_until_the_deadline() -> None:
    async with AdminCluster(1) as cluster, found(cluster) as (_, coordinators):
        cluster.known_groups["g"] = KnownGroup(-1)
        with pytest.raises(DeadlineExceededError, match="none now") as caught:
            await coordinators.call("g", asking("g"), within(0.1))
        assert caught.value.definite
        cluster.rule(
            ApiKey.FIND_COORDINATOR, Action.ERROR, error=CoordinatorNotAvailableError, times=3
        )
        cluster.known_groups["g"].coordinator = 1
        await coordinators.call("g", asking("g"), within(5))
        assert coordinators.known("g") == 1


async def test_one_that_the_metadata_does_not_hold_is_not_connected_to() -> None:
    async with AdminCluster(1) as cluster, found(cluster) as (_, coordinators):
        cluster.known_groups["g"] = KnownGroup(7)
        with pytest.raises(DeadlineExceededError, match="broker 7"):
            await coordinators.call("g", asking("g"), within(0.1))


async def test_what_cannot_heal_is_raised() -> None:
    async with AdminCluster(1) as cluster, found(cluster) as (_, coordinators):
        with pytest.raises(InvalidGroupIdError):
            await coordinators.call("", asking(""), within(5))
        cluster.rule(ApiKey.OFFSET_FETCH, Action.ERROR, error=GroupAuthorizationFailedError)
        with pytest.raises(GroupAuthorizationFailedError):
            await coordinators.call("g", asking("g"), within(5))
        assert refused_at_top(OffsetFetchResponse()) is None


async def test_each_coordinator_is_asked_once_about_all_of_its_groups() -> None:
    async with AdminCluster(3) as cluster, found(cluster) as (_, coordinators):
        names = [f"g{n}" for n in range(9)]
        for n, name in enumerate(names):
            cluster.known_groups[name] = KnownGroup(n % 3 + 1)
        answers = await coordinators.call_each(names, DescribeGroupsRequest, within(5))
        assert [answers[name].group_id for name in names] == names
        assert cluster.count(ApiKey.DESCRIBE_GROUPS) == 3


async def test_a_group_without_a_coordinator_does_not_hide_the_others() -> None:
    async with AdminCluster(2) as cluster, found(cluster) as (_, coordinators):
        cluster.known_groups["good"] = KnownGroup(1)
        cluster.known_groups["bad"] = KnownGroup(-1)
        answers = await coordinators.call_each(
            ["bad", "", "good"], DescribeGroupsRequest, within(0.2)
        )
        assert isinstance(answers["bad"], CoordinatorNotAvailableError)
        assert isinstance(answers[""], InvalidGroupIdError)
        assert answers["good"].state == "Empty"
        await cluster.brokers[1].stop()
        answers = await coordinators.call_each(["good"], DescribeGroupsRequest, within(0.2))
        assert isinstance(answers["good"], RequestTimedOutError)


async def test_groups_that_moved_are_found_again() -> None:
    async with AdminCluster(2) as cluster, found(cluster) as (_, coordinators):
        for name in ("a", "b"):
            cluster.known_groups[name] = KnownGroup(1)
        await coordinators.call_each(["a", "b"], DescribeGroupsRequest, within(5))
        cluster.known_groups["b"].coordinator = 2
        answers = await coordinators.call_each(["a", "b"], DescribeGroupsRequest, within(5))
        assert [answers[name].error_code for name in ("a", "b")] == [0, 0]
        assert coordinators.known("b") == 2


async def test_a_final_error_behind_a_lost_answer_is_not_definite() -> None:
    for lost in (False, True):
        async with AdminCluster() as cluster, found(cluster) as (_, coordinators):
            if lost:
                cluster.rule(ApiKey.OFFSET_FETCH, Action.DROP_AFTER)
            error = GroupAuthorizationFailedError
            cluster.rule(ApiKey.OFFSET_FETCH, Action.ERROR, error=error)
            with pytest.raises(GroupAuthorizationFailedError) as caught:
                await coordinators.call("g", asking("g"), within(5))
            assert caught.value.definite is not lost


async def test_an_answer_that_only_the_coordinator_gives_loses_nothing() -> None:
    async with AdminCluster() as cluster, found(cluster) as (_, coordinators):
        await coordinators.call("g", asking("g"), within(5))
        for error, known in ((ConcurrentTransactionsError(), 1), (NotCoordinatorError(), None)):
            coordinators.judge("g", error)
            assert coordinators.known("g") == known


async def test_transactional_ids_have_coordinators_and_connections_of_their_own() -> None:
    async with FakeCluster(2) as cluster:
        cluster.transactions.broker_id = 2
        options = ConnectionOptions(bootstrap_servers=cluster.bootstrap)
        router = Router(options, entropy=SeededEntropy(1))
        await router.start()
        try:
            coordinators = Coordinators(router, key_type=COORDINATOR_TRANSACTION, purpose="own")
            request = InitPidRequest("x", 1000)
            await coordinators.call("x", request, within(5))
            assert coordinators.known("x") == 2
            assert router.connections.channel_now(2, "own") is not None
        finally:
            await router.close()
