"""The settings in force: rooms are told in place, and everything can be taken back."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker import room_configs
from oncelog_broker.config import BrokerConfig
from oncelog_broker.config.marks import SECRET
from oncelog_broker.live_config import Described, LiveConfig
from oncelog_protocol.messages.replication import BrokerOverrides


def live(**settings: Any) -> LiveConfig:
    return LiveConfig(BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"], **settings}))


def overrides(broker_id: int, version: int = 0, **texts: str) -> BrokerOverrides:
    return BrokerOverrides(broker_id, version, list(texts), list(texts.values()))


def rows(config: LiveConfig) -> dict[str, Described]:
    return {row.key: row for row in config.described()}


def test_rooms_keep_their_objects_and_see_the_change() -> None:
    config = live()
    log, cleaner, lag = config.log, config.log.cleaner, config.replicas
    config.take(
        [
            overrides(-1, log_cleaner_enable="false", replica_lag_time_max_ms="99"),
            overrides(1, max_connections="5", log_retention_check_interval_ms="77"),
            overrides(2, max_connections="6"),
        ]
    )
    assert (config.log, config.log.cleaner, config.replicas) == (log, cleaner, lag)
    assert config.log is log
    assert config.log.cleaner is cleaner
    assert not cleaner.enable
    assert log.retention_check_interval_ms == 77
    assert lag.replica_lag_time_max_ms == 99
    assert config.connections.connections_max == 5


def test_everything_is_undone_when_it_is_taken_back() -> None:
    config = live()
    config.take([overrides(-1, group_max_size="3", transaction_max_timeout_ms="4")])
    assert (config.groups.group_max_size, config.transactions.transaction_max_timeout_ms) == (3, 4)
    config.take([])
    assert config.current == config.given
    assert config.groups == room_configs.group_config(config.given)
    assert config.transactions == room_configs.transaction_config(config.given)
    assert config.log == room_configs.log_config(config.given)


def test_who_listens_is_called_once_a_change() -> None:
    config, seen = live(), list[str]()
    config.on_change.append(lambda: seen.append(config.current.log_level))
    config.take([])
    config.take([overrides(-1, log_level="debug")])
    config.take([overrides(-1, log_level="debug")])
    config.take([overrides(-1, log_level="debug"), overrides(2, log_level="error")])
    config.take([overrides(-1, 1, log_level="debug"), overrides(1, log_level="warning")])
    assert seen == ["debug", "warning"]


def test_what_cannot_hold_is_logged_and_the_rest_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = live()
    config.take([overrides(-1, num_partitions="7", log_level="debug")])
    assert (config.current.num_partitions, config.current.log_level) == (1, "debug")
    assert "num_partitions needs a restart" in caplog.text


def test_sources_and_who_wins() -> None:
    config = live(max_connections=10, max_connections_per_ip=11)
    config.take([overrides(-1, max_connections="20", log_level="debug")])
    assert rows(config)["max_connections"] == ("max_connections", "20", "dynamic_default", False)
    config.take(
        [overrides(-1, max_connections="20", log_level="debug"), overrides(1, max_connections="30")]
    )
    shown = rows(config)
    assert shown["max_connections"] == ("max_connections", "30", "dynamic_broker", False)
    assert shown["max_connections_per_ip"].source == "broker"
    assert shown["log_level"].source == "dynamic_default"
    assert shown["num_partitions"] == ("num_partitions", "1", "default", True)
    assert set(BrokerConfig.model_fields) - {"listeners"} <= set(shown)
    assert [row.key for row in config.described_default()] == ["log_level", "max_connections"]


def test_listeners_are_told_part_by_part() -> None:
    shown = rows(live(listeners=[{"name": "internal", "port": 9}]))
    assert shown["listeners.internal.port"][1:] == ("9", "broker", True)
    assert shown["listeners.internal.host"][1:] == ("127.0.0.1", "default", True)
    assert shown["listeners.internal.advertised_port"].value is None


def test_defaults_of_topics_and_their_sources() -> None:
    config = live(min_insync_replicas=2, topic_defaults={"segment.bytes": 2048})
    config.take([BrokerOverrides(-1, 0, ["topic_defaults.retention_ms"], ["5"])])
    assert config.topic_default("retention_ms") == ("5", "dynamic_default")
    assert config.topic_default("segment_bytes") == ("2048", "broker")
    assert config.topic_default("min_insync_replicas") == ("2", "broker")
    assert config.topic_default("cleanup_policy") == ("delete", "default")
    config.take([overrides(-1, min_insync_replicas="3")])
    assert config.topic_default("min_insync_replicas") == ("3", "dynamic_default")
    assert config.topic_default("retention_ms") == ("604800000", "default")


def test_secrets_are_neither_told_nor_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    field = BrokerConfig.model_fields["max_connections"]
    monkeypatch.setattr(field, "metadata", [*field.metadata, SECRET])
    config = live()
    with caplog.at_level("INFO"):
        config.take([overrides(-1, max_connections="424242")])
    assert config.connections.connections_max == 424242
    assert "max_connections" in caplog.text
    assert "424242" not in caplog.text
    assert rows(config)["max_connections"].value is None
    assert config.described_default()[0].value is None
