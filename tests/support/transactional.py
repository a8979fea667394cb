"""Transactional producers use a fake cluster, for tests of what they do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog import GroupMetadata, Producer, TopicPartition
from oncelog.errors import Kind, TransactionOutcomeUnknownError
from oncelog.producer.transactions.transactions import Transactions
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.fake_txn_coordinator import FakeTxn

__all__ = [
    "GROUP",
    "ID",
    "TP",
    "commit_one",
    "lose_the_end",
    "make",
    "started",
    "transactions",
    "txn",
]

ID = "transfers"
GROUP = GroupMetadata("g", 3, "member", None)
TP = TopicPartition("in", 0)


def make(cluster: FakeCluster, **options: Any) -> Producer:
    given: dict[str, Any] = {
        "linger_ms": 0,
        "entropy": SeededEntropy(1),
        "transactional_id": ID,
        "delivery_timeout_ms": 5_000,
        "max_block_ms": 5_000,
        **options,
    }
    return Producer(cluster.bootstrap, **given)


@asynccontextmanager
async def started(
    brokers: int = 1, partitions: int = 3, **options: Any
) -> AsyncIterator[tuple[FakeCluster, Producer]]:
    async with FakeCluster(brokers) as cluster:
        cluster.create_topic("t", partitions)
        async with make(cluster, **options) as producer:
            yield cluster, producer


def transactions(producer: Producer) -> Transactions:
    assert producer._transactions is not None
    return producer._transactions


def txn(cluster: FakeCluster) -> FakeTxn:
    return cluster.transactions.ids[ID]


async def commit_one(producer: Producer, value: bytes = b"v", **place: Any) -> None:
    await producer.begin_transaction()
    await producer.send("t", value, **place)
    await producer.commit_transaction()


async def lose_the_end(cluster: FakeCluster, producer: Producer, *, acts: bool) -> None:
    """Send a transaction of one record whose commit nobody answers."""
    await producer.begin_transaction()
    await producer.send("t", b"?", partition=0)
    cluster.rule(ApiKey.END_TXN, Action.DROP_AFTER if acts else Action.DROP_BEFORE, times=10**6)
    with pytest.raises(TransactionOutcomeUnknownError) as caught:
        await producer.commit_transaction()
    assert caught.value.kind is Kind.RETRIABLE
    assert not caught.value.definite
    cluster.rules.clear()
