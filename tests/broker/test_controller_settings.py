"""The controller is told of some settings."""

from __future__ import annotations

import pytest

from oncelog_broker.config import BrokerConfig, ListenerConfig
from oncelog_broker.controller_settings import (
    ControllerSettings,
    controller_config,
    keeps_users,
    wanted_features,
)
from oncelog_controller.features import KAFKA_BATCHES, TRANSACTIONS_BY_NUMBER
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.messages.admin import ConfigEntry

CONFIG = BrokerConfig(broker_id=1, log_dirs=["/d"], num_partitions=3, min_insync_replicas=2)


def test_settings_reach_the_controller() -> None:
    config = controller_config(CONFIG)
    assert config.num_partitions == 3
    assert config.defaults()["min_insync_replicas"] == "2"
    assert not config.security
    assert not keeps_users(CONFIG)
    with_acls = CONFIG.model_copy(update={"authorizer": "acl"})
    assert controller_config(with_acls).security
    assert keeps_users(with_acls)


def test_acls_can_be_made_before_brokers_decide_by_them() -> None:
    listeners = [
        ListenerConfig(name="internal"),
        ListenerConfig(name="users", sasl_mechanisms=["SCRAM-SHA-256"]),
    ]
    config = controller_config(CONFIG.model_copy(update={"listeners": listeners}))
    assert config.security


def test_what_is_set_while_brokers_run_goes_before() -> None:
    settings = ControllerSettings(CONFIG)
    default = {"min_insync_replicas": "1", "auto_leader_rebalance_enable": "false"}
    config = settings.controller_config({-1: default, 2: {"max_connections": "3"}})
    assert config.defaults()["min_insync_replicas"] == "1"
    assert not config.auto_leader_rebalance_enable
    assert settings.controller_config({}) == controller_config(CONFIG)


def test_what_cannot_hold_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    config = ControllerSettings(CONFIG).controller_config({-1: {"num_partitions": "9"}})
    assert config.num_partitions == 3
    assert "num_partitions needs a restart" in caplog.text


def test_alterations_are_checked_by_the_model() -> None:
    settings = ControllerSettings(CONFIG)
    assert settings.altered(-1, {}, [ConfigEntry("log.level", "debug")]) == {"log_level": "debug"}
    with pytest.raises(InvalidConfigError):
        settings.altered(-1, {}, [ConfigEntry("log.level", "loud")])


def test_who_has_a_listener_for_clients_of_kafka_wants_their_batches() -> None:
    assert wanted_features(CONFIG, ["moves"]) == ("moves",)
    listeners = [*CONFIG.listeners, ListenerConfig(name="kafka", protocol="kafka")]
    with_kafka = CONFIG.model_copy(update={"listeners": listeners})
    assert wanted_features(with_kafka, []) == (KAFKA_BATCHES, TRANSACTIONS_BY_NUMBER)
    without = with_kafka.model_copy(update={"transaction_by_number_enable": False})
    assert wanted_features(without, ["moves"]) == ("moves", KAFKA_BATCHES)
