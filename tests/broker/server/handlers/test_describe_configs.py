"""DescribeConfigs: where each value comes from."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.describe_configs import DescribeConfigsHandler
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.messages.admin import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    ConfigResource,
    ConfigResourceResult,
    DescribeConfigsRequest,
)
from oncelog_protocol.messages.replication import (
    PartitionOrder,
    TopicConfig,
    UpdateMetadataRequest,
)
from oncelog_protocol.topic_config import TOPIC_SETTINGS
from support.server import DenyAll, answer


def ask(
    kind: int, name: str, keys: list[str] | None, authorizer: Authorizer | None = None
) -> ConfigResourceResult:
    image = MetadataImage("c")
    order = PartitionOrder("t", "id", 0, 1, 0, [1], 0, [1], False)
    config = TopicConfig("t", 1, ["retention.ms"], ["5"])
    image.apply(UpdateMetadataRequest(1, 1, 1, True, [order], [], [config]))
    handler = DescribeConfigsHandler(
        broker_id=1,
        image=image,
        topic_defaults={"segment.bytes": "2048", "min_insync_replicas": "1"},
        broker_settings={"rack": (None, True), "broker_id": ("1", False)},
        authorizer=authorizer or AllowAllAuthorizer(),
    )
    request = DescribeConfigsRequest([ConfigResource(kind, name, keys)])
    (result,) = answer(handler, request).resources
    assert isinstance(result, ConfigResourceResult)
    return result


def test_every_setting_of_a_topic_with_its_source() -> None:
    values = {v.key: v for v in ask(RESOURCE_TOPIC, "t", None).values}
    assert list(values) == list(TOPIC_SETTINGS)
    assert (values["retention_ms"].value, values["retention_ms"].source) == ("5", "topic")
    assert (values["segment_bytes"].value, values["segment_bytes"].source) == ("2048", "broker")
    assert values["min_insync_replicas"].source == "default"
    assert all(v.documentation and not v.read_only for v in values.values())


def test_either_spelling_selects() -> None:
    result = ask(RESOURCE_TOPIC, "t", ["segment.bytes", "retention_ms"])
    assert [v.key for v in result.values] == ["retention_ms", "segment_bytes"]


def test_a_brokers_own_settings() -> None:
    values = ask(RESOURCE_BROKER, "1", None).values
    assert [(v.key, v.value, v.source, v.read_only) for v in values] == [
        ("broker_id", "1", "broker", True),
        ("rack", None, "default", True),
    ]
    assert [v.key for v in ask(RESOURCE_BROKER, "1", ["broker.id"]).values] == ["broker_id"]


@pytest.mark.parametrize(
    ("kind", "name", "keys", "code"),
    [
        (RESOURCE_TOPIC, "none", None, 3),
        (RESOURCE_TOPIC, "t", ["no_such"], 40),
        (RESOURCE_BROKER, "2", None, 42),
        (RESOURCE_BROKER, "../1", None, 42),
        (99, "t", None, 42),
    ],
)
def test_what_cannot_be_described(kind: int, name: str, keys: list[str] | None, code: int) -> None:
    result = ask(kind, name, keys)
    assert (result.error_code, result.values) == (code, [])
    assert result.error_message


def test_who_may_not_learns_nothing() -> None:
    assert ask(RESOURCE_TOPIC, "t", None, DenyAll()).error_code == 29
    assert ask(RESOURCE_BROKER, "1", None, DenyAll()).error_code == 31
