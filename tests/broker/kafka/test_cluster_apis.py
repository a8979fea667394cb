"""The cluster, partitions page by page, and log directories are told in Kafka's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_broker.kafka.cluster_apis import page_of
from oncelog_broker.kafka.grouping import by_topic
from oncelog_broker.kafka.wire.messages.describe_cluster import KafkaDescribeClusterRequest
from oncelog_broker.kafka.wire.messages.describe_log_dirs import (
    KafkaDescribeLogDirsRequest,
    KafkaDescribeLogDirsRequestDescribableLogDirTopic,
)
from oncelog_broker.kafka.wire.messages.describe_topic_partitions import (
    KafkaDescribeTopicPartitionsRequest,
    KafkaDescribeTopicPartitionsRequestCursor,
    KafkaDescribeTopicPartitionsRequestTopicRequest,
)
from oncelog_protocol.messages.admin import ReplicaPlace
from oncelog_protocol.messages.metadata import MetadataPartition, MetadataTopic
from support.kafka_client import connected
from support.kafka_cluster import KafkaCluster


def topic(name: str, count: int) -> MetadataTopic:
    parts = [MetadataPartition(0, index, 1, 0, [1], [1], []) for index in range(count)]
    return MetadataTopic(0, name, "", False, parts[::-1])


@pytest.mark.parametrize("room", [1, 2, 3, 5, 6, 7])
def test_pages_tell_each_partition_once(room: int) -> None:
    topics = [topic("a", 3), topic("b", 0), topic("c", 2), topic("d", 1)]
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = ("", 0)
    while cursor is not None:
        first, start = cursor
        left = [each for each in topics if each.topic >= first]
        page, cursor = page_of(left, start, first, room)
        told = [(each.topic, part.partition) for each in page for part in each.partitions]
        assert len(told) <= room
        assert told or cursor is None
        seen += told
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("c", 0), ("c", 1), ("d", 0)]


async def test_the_cluster_and_its_partitions(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", partitions=3)
        await cluster.create_topic("u")
        client = await connected(cluster)
        told = await client.ask(KafkaDescribeClusterRequest(), 1)
        assert [(each.broker_id, each.port) for each in told.brokers] == [
            (1, cluster.brokers[1].addresses["kafka"][1])
        ]
        assert (told.error_code, told.controller_id) == (0, 1)
        assert told.cluster_id == cluster.brokers[1].image.cluster_id
        refused = await client.ask(KafkaDescribeClusterRequest(endpoint_type=2), 1)
        assert refused.error_code == 42

        names = [
            KafkaDescribeTopicPartitionsRequestTopicRequest(each) for each in ("u", "t", "none")
        ]
        asked = KafkaDescribeTopicPartitionsRequest(names, 2)
        page = await client.ask(asked, 0)
        assert [(each.name, each.error_code) for each in page.topics] == [("none", 3), ("t", 0)]
        assert [part.partition_index for part in page.topics[1].partitions] == [0, 1]
        assert page.topics[1].partitions[0].eligible_leader_replicas == []
        cursor = page.next_cursor
        assert (cursor.topic_name, cursor.partition_index) == ("t", 2)
        asked.cursor = KafkaDescribeTopicPartitionsRequestCursor("t", 2)
        page = await client.ask(asked, 0)
        assert [(each.name, len(each.partitions)) for each in page.topics] == [("t", 1), ("u", 1)]
        assert page.next_cursor is None
        everything = await client.ask(KafkaDescribeTopicPartitionsRequest(), 0)
        assert {"t", "u"} <= {each.name for each in everything.topics}
        client.close()


async def test_log_directories(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", partitions=3)
        client = await connected(cluster)
        some = KafkaDescribeLogDirsRequestDescribableLogDirTopic("t", [0, 2])
        told = await client.ask(KafkaDescribeLogDirsRequest([some]), 4)
        (directory,) = told.results
        assert directory.error_code == 0
        assert directory.total_bytes > directory.usable_bytes > 0
        (row,) = directory.topics
        assert (row.name, [part.partition_index for part in row.partitions]) == ("t", [0, 2])
        assert not any(part.offset_lag or part.is_future_key for part in row.partitions)
        everything = await client.ask(KafkaDescribeLogDirsRequest(None), 4)
        counts = {each.name: len(each.partitions) for each in everything.results[0].topics}
        assert counts["t"] == 3
        client.close()


# ---- grouping.py: items by topic


def test_items_by_topic() -> None:
    items = [ReplicaPlace("b", 0, ""), ReplicaPlace("a", 1, ""), ReplicaPlace("b", 2, "")]
    found = by_topic(items)
    assert {name: [each.partition for each in rows] for name, rows in found.items()} == {
        "b": [0, 2], "a": [1],
    }  # fmt: skip
