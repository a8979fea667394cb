"""Settings are told and changed in Kafka's words, through any broker."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.kafka.config_apis import APPEND, DELETE, SET, SUBTRACT, dotted
from oncelog_broker.kafka.wire.messages.describe_configs import (
    KafkaDescribeConfigsRequest,
    KafkaDescribeConfigsRequestResource,
)
from oncelog_broker.kafka.wire.messages.incremental_alter_configs import (
    KafkaIncrementalAlterConfigsRequest,
    KafkaIncrementalAlterConfigsRequestAlterableConfig,
    KafkaIncrementalAlterConfigsRequestAlterConfigsResource,
)
from oncelog_protocol.messages.admin import RESOURCE_BROKER, RESOURCE_TOPIC
from support.kafka_client import RawClient, connected
from support.kafka_cluster import KafkaCluster
from support.waiting import eventually

Setting = tuple[str, int, str | None]


async def altered(client: RawClient, kind: int, name: str, *settings: Setting) -> Any:
    """Return what became of changes to one resource."""
    configs = [KafkaIncrementalAlterConfigsRequestAlterableConfig(*each) for each in settings]
    resource = KafkaIncrementalAlterConfigsRequestAlterConfigsResource(kind, name, configs)
    answer = await client.ask(KafkaIncrementalAlterConfigsRequest([resource]), 1)
    (row,) = answer.responses
    assert (row.resource_type, row.resource_name) == (kind, name)
    return row


async def described(client: RawClient, kind: int, name: str, *keys: str) -> dict[str, Any]:
    """Return settings of one resource, by the names that Kafka gives them."""
    resource = KafkaDescribeConfigsRequestResource(kind, name, list(keys) or None)
    answer = await client.ask(KafkaDescribeConfigsRequest([resource]), 4)
    (result,) = answer.results
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


async def test_settings_of_topics(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        everything = await described(client, RESOURCE_TOPIC, "t")
        retention = everything["retention.ms"]
        assert (retention.value, retention.config_source, retention.config_type) == (
            *("604800000", 5, 5),
        )
        image = cluster.brokers[1].image
        row = await altered(
            client, RESOURCE_TOPIC, "t", ("retention.ms", SET, "5000"),
            ("cleanup.policy", APPEND, "compact"),
        )  # fmt: skip
        assert row.error_code == 0
        await eventually(lambda: image.overrides("t").get("cleanup_policy") == "delete,compact")
        found = await described(client, RESOURCE_TOPIC, "t", "retention.ms", "preallocate")
        assert {name: (each.value, each.config_source) for name, each in found.items()} == {
            "retention.ms": ("5000", 1)
        }
        row = await altered(
            client, RESOURCE_TOPIC, "t", ("retention.ms", DELETE, None),
            ("cleanup.policy", SUBTRACT, "delete"),
        )  # fmt: skip
        assert row.error_code == 0
        await eventually(lambda: image.overrides("t") == {"cleanup_policy": "compact"})
        client.close()


async def test_throttles_that_nobody_can_set_may_be_taken_back(tmp_path: Path) -> None:
    """So does ``kafka-reassign-partitions --verify``."""
    rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        for kind, name, key in ((RESOURCE_BROKER, "1", rate), (RESOURCE_TOPIC, "t", replicas)):
            assert (await altered(client, kind, name, (key, DELETE, None))).error_code == 0
            assert (await altered(client, kind, name, (key, SET, "1"))).error_code == 40
        client.close()


@pytest.mark.parametrize(
    ("setting", "code", "says"),
    [
        (("segment.jitter.ms", SET, "5"), 40, "segment.jitter.ms"),  # INVALID_CONFIG
        (("retention.ms", SET, "soon"), 40, "soon"),
        (("retention.ms", APPEND, "5"), 40, "retention.ms"),
        (("retention.ms", SET, None), 42, "retention.ms"),  # INVALID_REQUEST
        (("retention.ms", 9, "5"), 42, "9"),
    ],
)
async def test_what_cannot_be_set(tmp_path: Path, setting: Setting, code: int, says: str) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        row = await altered(client, RESOURCE_TOPIC, "t", setting)
        assert row.error_code == code
        assert says in row.error_message
        client.close()


def is_set_everywhere(cluster: KafkaCluster, retention_ms: str) -> bool:
    images = [broker.image for broker in cluster.brokers.values()]
    return all(image.overrides("t").get("retention_ms") == retention_ms for image in images)


async def test_any_broker_is_asked(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 2) as cluster:
        await cluster.create_topic("t")
        await cluster.converged()
        for broker_id in cluster.brokers:
            client = await connected(cluster, broker_id)
            wish = ("retention.ms", SET, f"{broker_id}000")
            assert (await altered(client, RESOURCE_TOPIC, "t", wish)).error_code == 0
            refused = await altered(client, RESOURCE_TOPIC, "__consumer_offsets", wish)
            assert refused.error_code == 42  # INVALID_REQUEST: it is internal
            await eventually(partial(is_set_everywhere, cluster, f"{broker_id}000"))
            wish = ("num.io.threads", SET, "true")
            assert (await altered(client, RESOURCE_BROKER, str(broker_id), wish)).error_code == 40
            own = await described(client, RESOURCE_BROKER, str(broker_id), "broker.id")
            assert own["broker.id"].value == str(broker_id)
            client.close()


def test_names() -> None:
    assert dotted("min_insync_replicas") == "min.insync.replicas"
    assert dotted("listeners.my_own.port") == "listeners.my_own.port"
    assert dotted("topic_defaults.retention_ms") == "topic.defaults.retention_ms"
