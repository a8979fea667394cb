"""These tests check what is asked of coordinators, word by word, and what its answers mean."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncelog import GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.config import ConnectionOptions
from oncelog.core.router import Router
from oncelog.errors import DeadlineExceededError, InvalidTxnStateError, ProducerFencedError
from oncelog.producer.transactions.calls import ProducerIdentity, TxnCalls
from oncelog_protocol.errors import (
    OffsetMetadataTooLargeError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages import transactions as wire
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster

TP = TopicPartition("in", 2)
GROUP = GroupMetadata("g", 3, "m", "instance")
OFFSETS = {TP: OffsetAndMetadata(7, "note", 4), TopicPartition("in", 0): OffsetAndMetadata(1)}


@asynccontextmanager
async def calls(brokers: int = 2) -> AsyncIterator[tuple[FakeCluster, TxnCalls]]:
    async with FakeCluster(brokers) as cluster:
        options = ConnectionOptions(bootstrap_servers=cluster.bootstrap)
        router = Router(options, entropy=SeededEntropy(1))
        await router.start()
        try:
            yield cluster, TxnCalls(router, "id", 5_000)
        finally:
            await router.close()


def soon(seconds: float = 3.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def last(cluster: FakeCluster, api: ApiKey) -> object:
    return [request for _, request in cluster.requests if request.api_key == api][-1]


async def test_an_identity_then_another() -> None:
    async with calls() as (cluster, asked):
        first = await asked.init(ProducerIdentity(), soon())
        assert last(cluster, ApiKey.INIT_PID) == wire.InitPidRequest("id", 5_000, -1, -1)
        second = await asked.init(first, soon())
        assert last(cluster, ApiKey.INIT_PID) == wire.InitPidRequest("id", 5_000, *first)
        assert second == (first.producer_id, first.producer_epoch + 1)
        await asked.init(ProducerIdentity(), soon())
        with pytest.raises(ProducerFencedError):
            await asked.init(first, soon())


async def test_ends_and_their_repeats() -> None:
    async with calls() as (cluster, asked):
        identity = await asked.init(ProducerIdentity(), soon())
        with pytest.raises(InvalidTxnStateError):
            await asked.end(identity, True, soon())
        await asked.commit_offsets(identity, OFFSETS, GROUP, soon())
        following = await asked.end(identity, True, soon())
        assert last(cluster, ApiKey.END_TXN) == wire.EndTxnRequest("id", *identity, True)
        assert await asked.end(identity, True, soon()) == following
        with pytest.raises(InvalidTxnStateError) as caught:
            await asked.end(identity, False, soon())
        assert caught.value.definite


async def test_offsets_with_who_commits_them() -> None:
    async with calls() as (cluster, asked):
        identity = await asked.init(ProducerIdentity(), soon())
        await asked.commit_offsets(identity, OFFSETS, GROUP, soon())
        assert last(cluster, ApiKey.TXN_OFFSET_COMMIT) == wire.TxnOffsetCommitRequest(
            "id",
            *identity,
            "g",
            [
                wire.TxnOffsetCommitTopic(
                    "in",
                    [
                        wire.TxnOffsetCommitPartition(2, 7, 4, "note"),
                        wire.TxnOffsetCommitPartition(0, 1, -1, ""),
                    ],
                )
            ],
            3,
            "m",
            "instance",
        )
        cluster.rule(ApiKey.TXN_OFFSET_COMMIT, Action.ERROR, error=UnknownMemberIdError)
        with pytest.raises(UnknownMemberIdError):
            await asked.commit_offsets(identity, OFFSETS, GROUP, soon())


async def test_a_partitions_error_is_that_of_all() -> None:
    async with calls() as (cluster, asked):
        identity = await asked.init(ProducerIdentity(), soon())
        codes = [UnknownTopicOrPartitionError.code, 0]
        handle = cluster.transactions.handle

        def refusing(broker: int, request: object) -> object:
            answer = handle(broker, request)
            if isinstance(request, wire.TxnOffsetCommitRequest):
                answer.topics[0].partitions[1].error_code = codes.pop(0)
            return answer

        cluster.transactions.handle = refusing  # type: ignore[method-assign]
        await asked.commit_offsets(identity, OFFSETS, GROUP, soon())
        assert not codes, "one that may heal is asked again"
        codes[:] = [OffsetMetadataTooLargeError.code]
        with pytest.raises(OffsetMetadataTooLargeError, match="in-0"):
            await asked.commit_offsets(identity, OFFSETS, GROUP, soon())
        codes[:] = [TopicAuthorizationFailedError.code]
        with pytest.raises(TopicAuthorizationFailedError, match="may not READ topic in: oncelog"):
            await asked.commit_offsets(identity, OFFSETS, GROUP, soon())


async def test_a_deadline_says_whether_anything_was_done() -> None:
    async with calls(1) as (cluster, asked):
        identity = await asked.init(ProducerIdentity(), soon())
        await asked.commit_offsets(identity, OFFSETS, GROUP, soon())
        cluster.rule(ApiKey.END_TXN, Action.DROP_AFTER, times=10**6)
        with pytest.raises(DeadlineExceededError) as caught:
            await asked.end(identity, True, soon(0.2))
        assert not caught.value.definite
