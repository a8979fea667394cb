"""Partitions are given other replicas, and other directories, in Kafka's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.kafka.move_apis import _ongoing
from oncelog_broker.kafka.wire.messages.alter_partition_reassignments import (
    KafkaAlterPartitionReassignmentsRequest,
    KafkaAlterPartitionReassignmentsRequestReassignablePartition,
    KafkaAlterPartitionReassignmentsRequestReassignableTopic,
)
from oncelog_broker.kafka.wire.messages.list_partition_reassignments import (
    KafkaListPartitionReassignmentsRequest,
)
from oncelog_protocol.messages.moves import COPYING, QUEUED, PartitionMove
from support.kafka_client import RawClient, connected
from support.kafka_cluster import KafkaCluster
from support.waiting import eventually


async def reassigned(client: RawClient, replicas: list[int] | None, version: int = 1) -> Any:
    """Return what became of the wish that "t" 0 has these replicas."""
    part = KafkaAlterPartitionReassignmentsRequestReassignablePartition(0, replicas)
    topic = KafkaAlterPartitionReassignmentsRequestReassignableTopic("t", [part])
    asked = KafkaAlterPartitionReassignmentsRequest(10_000, topics=[topic])
    asked.allow_replication_factor_change = version == 0
    answer = await client.ask(asked, version)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0].error_code


async def test_partitions_get_other_replicas(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 2) as cluster:
        await cluster.create_topic("t")
        await cluster.converged()
        image = cluster.brokers[1].image
        client = await connected(cluster, image.controller_id)
        (leader,) = image.topics["t"].partitions[0].replicas
        other = 3 - leader
        assert await reassigned(client, [leader, other]) == 38  # INVALID_REPLICATION_FACTOR
        assert await reassigned(client, [9]) == 39  # INVALID_REPLICA_ASSIGNMENT
        assert await reassigned(client, None) == 85  # NO_REASSIGNMENT_IN_PROGRESS
        assert await reassigned(client, [leader, other], version=0) == 0
        await eventually(lambda: image.topics["t"].partitions[0].replicas == [leader, other])

        async def none_left() -> bool:
            told = await client.ask(KafkaListPartitionReassignmentsRequest(), 0)
            assert told.error_code == 0
            return not told.topics

        while not await none_left():
            pass
        client.close()


@pytest.mark.parametrize(
    ("phase", "replicas", "origin", "target", "told"),
    [
        (QUEUED, [1, 2], [1, 2], [2, 3], ([1, 2, 3], [3], [1])),
        (COPYING, [1, 2, 3], [1, 2], [2, 3], ([1, 2, 3], [3], [1])),
        (COPYING, [1, 2, 3], [1, 2], [1, 2], ([1, 2, 3], [], [3])),
    ],
)
def test_what_is_told_of_a_move(
    phase: str,
    replicas: list[int],
    origin: list[int],
    target: list[int],
    told: tuple[list[int], ...],
) -> None:
    move = PartitionMove("t", 0, "plan", replicas, origin, target, [], phase)
    row = _ongoing(move)
    assert (row.replicas, row.adding_replicas, row.removing_replicas) == told
