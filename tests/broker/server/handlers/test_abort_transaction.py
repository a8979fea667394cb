"""AbortTransaction ends the transaction that is named, and no other."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.abort_transaction import AbortTransactionHandler
from oncelog_broker.transactions.marker_writer import MarkerWriter
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transaction_admin import AbortTransactionRequest
from oncelog_protocol.types import TopicPartition
from support.fake_transactions import FakeGroups
from support.replication_cluster import Cluster, call, transact
from support.server import DenyAll
from support.waiting import eventually

TP = TopicPartition("t", 0)


async def abort(
    cluster: Cluster,
    topic: str = "t",
    *,
    pid: int = 7,
    epoch: int = 1,
    groups: FakeGroups | None = None,
    authorizer: Authorizer | None = None,
) -> int:
    replicas = cluster[1].replicas
    handler = AbortTransactionHandler(
        replicas, MarkerWriter(replicas, groups or FakeGroups()), authorizer or AllowAllAuthorizer()
    )
    message = await call(handler, AbortTransactionRequest(topic, 0, pid, epoch)).wait()
    code: int = message.error_code
    return code


async def test_a_transaction_that_hangs_ends() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        partition = cluster[1].partition(TP)
        partition.append_marker(True, 7, 0, 12, cluster[1].replicas.now())
        transact(cluster[1], TP)
        await eventually(lambda: partition.last_stable_offset == 1)
        assert await abort(cluster) == 0
        assert partition.last_stable_offset == 3
        assert [(a.producer_id, a.first_offset) for a in partition.aborted_transactions(0, 3)] == [
            (7, 1)
        ]
        ((producer,), _) = partition.log.producers.describe(2)
        assert (producer.producer_epoch, producer.coordinator_epoch) == (2, 12)
        with pytest.raises(InvalidTxnStateError):
            await abort(cluster)


async def test_no_other_transaction() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1)
        cluster.lead(TopicPartition("u", 0), 2)
        transact(cluster[1], TP, epoch=3)
        for epoch in (2, 4):
            with pytest.raises(InvalidProducerEpochError):
                await abort(cluster, epoch=epoch)
        with pytest.raises(InvalidTxnStateError):
            await abort(cluster, pid=8)
        with pytest.raises(NotLeaderOrFollowerError):
            await abort(cluster, "u")
        with pytest.raises(UnknownTopicOrPartitionError):
            await abort(cluster, "none")
        with pytest.raises(ClusterAuthorizationFailedError):
            await abort(cluster, epoch=3, authorizer=DenyAll())
        assert cluster[1].partition(TP).log.log_end_offset == 1


async def test_pending_offsets_are_dropped() -> None:
    async with Cluster(brokers=1) as cluster:
        groups = FakeGroups()
        assert await abort(cluster, GROUP_TOPIC, groups=groups) == 0
        assert groups.ended == [(0, 7, 2, False)]
        groups.code = NotCoordinatorError.code
        assert await abort(cluster, GROUP_TOPIC, groups=groups) == NotLeaderOrFollowerError.code
