"""Fetch: who may ask as what, and what a connection leaves behind when it goes."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.server.authorizer import CLUSTER_ACTION, READ, AllowAllAuthorizer
from oncelog_broker.server.client_quotas import ClientQuotas
from oncelog_broker.server.handlers.fetch import FetchHandler
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidFetchSessionEpochError,
    InvalidRequestError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.quotas import CONSUMER_BYTE_RATE, REQUEST_RATE, QuotaEntity
from oncelog_protocol.types import TopicPartition
from support.replication_cluster import Cluster, call, make_context

TP = TopicPartition("t", 0)


class Without(AllowAllAuthorizer):
    """It allows all but one operation."""

    def __init__(self, operation: str) -> None:
        self.operation = operation

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        return operation != self.operation

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        return operation != self.operation


def request(
    *, replica: int = -1, session: int = -1, offset: int = 0, wait_ms: int = 0, named: bool = True
) -> FetchRequest:
    partitions = [FetchPartition(0, offset, 1 << 20, 0 if replica >= 0 else -1)]
    topics = [FetchTopic("t", partitions, "id")] if named else []
    return FetchRequest(replica, 200, wait_ms, 1, 1 << 20, 0, session, topics)


async def test_consumers_read_what_was_produced() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        answer = call(cluster[1].fetch, request())
        message = await answer.wait()
        assert message.topics[0].partitions[0].records.length == len(answer.payload) > 0


@pytest.mark.hostile(37)
@pytest.mark.cve("2018-1288")
async def test_a_replica_id_on_a_client_listener_is_refused() -> None:
    """CVE-2018-1288 was this hole."""
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1, isr=[1])
        with pytest.raises(ClusterAuthorizationFailedError):
            call(cluster[1].fetch, request(replica=2, session=0))
        with pytest.raises(ClusterAuthorizationFailedError):
            call(
                cluster[1].fetch,
                request(replica=1, session=0),
                context=make_context(internal=True),
            )
        handler = FetchHandler(cluster[1].replicas, Without(CLUSTER_ACTION))
        with pytest.raises(ClusterAuthorizationFailedError):
            call(handler, request(replica=2, session=0), context=make_context(internal=True))
        leader = cluster[1].partition(TP).leader
        assert leader is not None
        assert leader.followers[2].broker_epoch != 200 or leader.isr == (1, 2)


async def test_without_the_right_to_read_there_is_nothing_to_see() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler = FetchHandler(cluster[1].replicas, Without(READ))
        message = await call(handler, request()).wait()
        assert message.topics[0].partitions[0].error_code == TopicAuthorizationFailedError.code


async def test_sessions_are_for_replicas_and_in_order() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler = cluster[1].fetch
        with pytest.raises(InvalidFetchSessionEpochError):
            call(handler, request(session=0))
        with pytest.raises(InvalidRequestError):
            call(handler, request(replica=-2))
        context = make_context(internal=True)
        with pytest.raises(InvalidFetchSessionEpochError):
            call(handler, request(replica=2, session=1), context=context)
        await call(handler, request(replica=2, session=0), context=context).wait()
        await call(handler, request(replica=2, session=1, named=False), context=context).wait()
        with pytest.raises(InvalidFetchSessionEpochError):
            call(handler, request(replica=2, session=1, named=False), context=context)
        with pytest.raises(InvalidFetchSessionEpochError):
            call(handler, request(replica=3, session=2, named=False), context=context)


async def test_a_full_fetch_begins_a_new_session_on_the_same_connection() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster[2].cut()
        cluster.lead(TP, 1, isr=[1])
        context = make_context(internal=True)
        parked = call(
            cluster[1].fetch, request(replica=2, session=0, wait_ms=10_000), context=context
        )
        await asyncio.sleep(0)
        assert parked.count == 0
        await call(cluster[1].fetch, request(replica=2, session=0), context=context).wait()
        assert parked.count == 1
        assert len(context.connection.on_close) == 1


@pytest.mark.parametrize("replica", [-1, 2])
async def test_a_lost_connection_leaves_nothing_behind(replica: int) -> None:
    async with Cluster(brokers=2) as cluster:
        cluster[2].cut()
        cluster.lead(TP, 1, isr=[1])
        context = make_context(internal=True)
        session = 0 if replica >= 0 else -1
        parked = call(
            cluster[1].fetch,
            request(replica=replica, session=session, wait_ms=10_000),
            context=context,
        )
        assert len(cluster[1].replicas.deadlines) == 1
        for callback in context.connection.on_close:
            callback()
        assert len(cluster[1].replicas.deadlines) == 0
        assert cluster[1].partition(TP)._readers == {}
        await cluster.produced(TP, b"a")
        assert parked.count == 0


async def test_a_consumers_connection_may_become_anything_later() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        context = make_context(internal=True)
        first = call(cluster[1].fetch, request(wait_ms=5_000), context=context)
        second = call(cluster[1].fetch, request(wait_ms=5_000), context=context)
        await cluster.produced(TP, b"a")
        await first.wait()
        await second.wait()
        assert len(context.connection.on_close) == 1


async def test_who_may_not_read_any_more_waits_no_longer() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        authorizer = Without("nothing")
        handler = FetchHandler(cluster[1].replicas, authorizer)
        context = make_context()
        waits = [call(handler, request(wait_ms=10_000), context=context) for _ in range(2)]
        handler.look_again()
        await asyncio.sleep(0)
        assert [wait.count for wait in waits] == [0, 0]
        authorizer.operation = READ
        handler.look_again()
        for wait in waits:
            message = await wait.wait()
            assert message.topics[0].partitions[0].error_code == TopicAuthorizationFailedError.code
        for callback in context.connection.on_close:
            callback()
        handler.look_again()


# ---- quotas


def bound(key: str, value: float) -> ClientQuotas:
    quotas = ClientQuotas(lambda: 50.0)
    quotas.take({QuotaEntity("test"): {key: value}})
    return quotas


async def test_what_may_be_read_is_what_the_quota_has_but_one_batch_at_least() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        for _ in range(4):
            await cluster.produced(TP, bytes(100))
        whole = await call(cluster[1].fetch, request()).wait()
        size = whole.topics[0].partitions[0].records.length // 4
        quotas = bound(CONSUMER_BYTE_RATE, 2.5 * size)
        handler = FetchHandler(cluster[1].replicas, AllowAllAuthorizer(), quotas)
        context = make_context()
        read = [
            (await call(handler, request(), context=context).wait())
            .topics[0]
            .partitions[0]
            .records.length
            // size
            for _ in range(3)
        ]
        assert read == [2, 1, 1]
        assert quotas.left(context, CONSUMER_BYTE_RATE) == -1.5 * size
        assert context.connection.held_until == pytest.approx(50.0 + 1.5 / 2.5)


async def test_a_quota_of_0_refuses_to_read() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler = FetchHandler(
            cluster[1].replicas, AllowAllAuthorizer(), bound(CONSUMER_BYTE_RATE, 0)
        )
        context = make_context()
        with pytest.raises(ThrottlingQuotaExceededError):
            call(handler, request(), context=context)
        assert context.connection.held_until == 80.0


async def test_followers_have_no_quota() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster[2].cut()
        cluster.lead(TP, 1, isr=[1])
        handler = FetchHandler(
            cluster[1].replicas, AllowAllAuthorizer(), bound(CONSUMER_BYTE_RATE, 0)
        )
        context = make_context(internal=True)
        message = await call(handler, request(replica=2, session=0), context=context).wait()
        assert message.error_code == 0


async def test_bytes_that_are_read_are_work() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, bytes(1000))
        quotas = bound(REQUEST_RATE, 100)
        handler = FetchHandler(cluster[1].replicas, AllowAllAuthorizer(), quotas)
        context = make_context()
        await call(handler, request(), context=context).wait()
        left = quotas.left(context, REQUEST_RATE)
        assert left is not None
        assert left < 100
