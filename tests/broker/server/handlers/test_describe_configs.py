"""DescribeConfigs says where each value comes from."""

from __future__ import annotations

import pytest

from oncelog_broker.config import BrokerConfig
from oncelog_broker.live_config import LiveConfig
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
    BrokerOverrides,
    LeaderAndIsrPartition,
    TopicOverrides,
    UpdateMetadataRequest,
)
from oncelog_protocol.topic_config import TOPIC_SETTINGS
from support.server import DenyAll, answer


def settings() -> LiveConfig:
    """Return those of a broker with settings from everywhere."""
    defaults: dict[str, str | int | bool] = {"segment.bytes": 2048, "min_insync_replicas": 1}
    live = LiveConfig(BrokerConfig(broker_id=1, log_dirs=["/d"], topic_defaults=defaults))
    default = BrokerOverrides(-1, 3, ["log_level", "topic_defaults.segment_ms"], ["debug", "60000"])
    live.take([default, BrokerOverrides(1, 0, ["max_connections"], ["7"])])
    return live


def ask(
    kind: int, name: str, keys: list[str] | None, authorizer: Authorizer | None = None
) -> ConfigResourceResult:
    image = MetadataImage("c")
    order = LeaderAndIsrPartition("t", "id", 0, 1, 0, [1], 0, [1], False)
    config = TopicOverrides("t", 1, ["retention.ms"], ["5"])
    image.apply(UpdateMetadataRequest(1, 1, 1, True, [order], [], [config]))
    handler = DescribeConfigsHandler(
        broker_id=1,
        image=image,
        settings=settings(),
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


def test_defaults_of_topics_that_are_set_while_brokers_run() -> None:
    (value,) = ask(RESOURCE_TOPIC, "t", ["segment_ms"]).values
    assert (value.value, value.source) == ("60000", "dynamic_default")


def test_a_brokers_own_settings() -> None:
    values = {v.key: v for v in ask(RESOURCE_BROKER, "1", None).values}
    shown = [
        (key, values[key].value, values[key].source, values[key].read_only)
        for key in ("broker_id", "log_level", "max_connections", "rack", "replica_lag_time_max_ms")
    ]
    assert shown == [
        ("broker_id", "1", "broker", True),
        ("log_level", "debug", "dynamic_default", False),
        ("max_connections", "7", "dynamic_broker", False),
        ("rack", None, "default", True),
        ("replica_lag_time_max_ms", "10000", "default", False),
    ]
    assert values["topic_defaults.segment_ms"].source == "dynamic_default"
    assert values["topic_defaults.segment_bytes"].source == "broker"
    assert [v.key for v in ask(RESOURCE_BROKER, "1", ["broker.id"]).values] == ["broker_id"]
    (entry,) = ask(RESOURCE_BROKER, "1", ["topic.defaults.segment.ms"]).values
    assert entry.key == "topic_defaults.segment_ms"
    entries = ask(RESOURCE_BROKER, "1", ["topic_defaults"]).values
    assert [v.key.partition(".")[0] for v in entries] == ["topic_defaults"] * 3


def test_what_is_set_for_all_brokers() -> None:
    values = ask(RESOURCE_BROKER, "", None).values
    assert [(v.key, v.value, v.source, v.read_only) for v in values] == [
        ("log_level", "debug", "dynamic_default", False),
        ("topic_defaults.segment_ms", "60000", "dynamic_default", False),
    ]


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
