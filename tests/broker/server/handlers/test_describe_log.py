"""DescribeLog answers for every replica of the broker that is asked, to who may read the topic."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_broker.server.authorizer import (
    DESCRIBE,
    READ,
    TOPIC,
    AllowAllAuthorizer,
    Authorizer,
)
from oncelog_broker.server.handlers import describe_log
from oncelog_broker.server.handlers.describe_log import AT_ONCE_MAX, DescribeLogHandler
from oncelog_protocol.errors import (
    InvalidRequestError,
    StorageError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.log_description import DescribeLogRequest, DescribeLogResponse
from oncelog_protocol.types import TopicPartition
from support.logs import batch
from support.replication_cluster import Cluster
from support.server import DenyAll, Only, make_context

TP = TopicPartition("t", 0)


async def ask(
    cluster: Cluster, *named: Any, authorizer: Authorizer | None = None, **request: Any
) -> DescribeLogResponse:
    handler = DescribeLogHandler(cluster[1].replicas, authorizer or AllowAllAuthorizer())
    asked = DescribeLogRequest(*(named or TP), **request)
    return await handler.handle_async(make_context(), asked)


async def test_a_leader_and_a_follower_tell_what_they_hold() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1)
        cluster[1].partition(TP).append_as_leader(batch(b"v"), -1, cluster[1].replicas.now())
        told = await ask(cluster, batches_from=0, batch_count_max=5)
        assert (told.is_leader, told.log_end_offset) == (True, 1)
        assert (told.high_watermark, told.last_stable_offset) == (
            cluster[1].partition(TP).high_watermark,
            cluster[1].partition(TP).last_stable_offset,
        )
        assert [each.base_offset for each in told.batches] == [0]
        cluster.lead(TP, 2)
        told = await ask(cluster)
        assert (told.is_leader, told.leader_epoch) == (False, cluster[2].partition(TP).leader_epoch)


async def test_who_may_not_read_learns_nothing() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TopicPartition("secret", 0), 1)
        hidden = await ask(cluster, "secret", 0, authorizer=DenyAll())
        assert hidden.error_code == TopicAuthorizationFailedError.code
        absent = await ask(cluster, "absent", 0, authorizer=DenyAll())
        assert repr(hidden).replace("secret", "absent") == repr(absent)
        sees = Only((DESCRIBE, TOPIC, "secret"))
        assert (await ask(cluster, "secret", 0, authorizer=sees)).error_code == hidden.error_code
        may = Only((READ, TOPIC, "secret"))
        assert (await ask(cluster, "secret", 0, authorizer=may)).error_code == 0
        assert (await ask(cluster, "secret", 1)).error_code == UnknownTopicOrPartitionError.code


@pytest.mark.parametrize("name", ["from_offset", "at_offset", "batches_from"])
async def test_offsets_that_cannot_be(name: str) -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        wrong: dict[str, Any] = {name: -2}
        refused = await ask(cluster, **wrong)
        assert refused.error_code == InvalidRequestError.code
        assert refused.error_message == f"{name} -2"
        assert (await ask(cluster, **{**wrong, name: -1})).error_code == 0


async def test_a_replica_that_is_out_of_service() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        cluster[1].partition(TP).fail()
        refused = await ask(cluster)
        assert refused.error_code == StorageError.code
        assert "out of service" in str(refused.error_message)


async def test_few_are_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, most = 0, 0
    go_on = asyncio.Event()

    async def slow(log: Any, request: Any) -> DescribeLogResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await go_on.wait()
        under_way -= 1
        return DescribeLogResponse()

    monkeypatch.setattr(describe_log, "describe_log", slow)
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        handler = DescribeLogHandler(cluster[1].replicas, AllowAllAuthorizer())
        asked = [
            asyncio.create_task(handler.handle_async(make_context(), DescribeLogRequest(*TP)))
            for _ in range(AT_ONCE_MAX + 3)
        ]
        for _ in range(5):
            await asyncio.sleep(0)
        go_on.set()
        answers = await asyncio.gather(*asked)
        assert (len(answers), most) == (AT_ONCE_MAX + 3, AT_ONCE_MAX)
        assert {each.error_code for each in answers} == {0}
