"""Rooms are given the settings of a broker that was told nothing, but for what a test names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oncelog_broker import room_configs
from oncelog_broker.config import BrokerConfig
from oncelog_broker.controller_settings import controller_config
from oncelog_broker.coordinator.group.config import GroupConfig
from oncelog_broker.coordinator.transaction.config import TransactionConfig
from oncelog_broker.log.cleaner import CleanerConfig
from oncelog_broker.log.log_manager import LogConfig
from oncelog_broker.replication.ports import ReplicaConfig
from oncelog_broker.server.quotas import ConnectionLimits
from oncelog_controller.config import ControllerConfig

TOLD_NOTHING = BrokerConfig(broker_id=1, log_dirs=["/data"])


def log_settings(**given: Any) -> LogConfig:
    found = replace(room_configs.log_config(TOLD_NOTHING), topic_defaults={})
    return replace(found, **given)


def cleaner_settings(**given: Any) -> CleanerConfig:
    return replace(room_configs.log_config(TOLD_NOTHING).cleaner, **given)


def replica_settings(**given: Any) -> ReplicaConfig:
    return replace(room_configs.replica_config(TOLD_NOTHING), **given)


def group_settings(**given: Any) -> GroupConfig:
    return replace(room_configs.group_config(TOLD_NOTHING), **given)


def transaction_settings(**given: Any) -> TransactionConfig:
    return replace(room_configs.transaction_config(TOLD_NOTHING), **given)


def connection_settings(**given: Any) -> ConnectionLimits:
    return replace(room_configs.connection_limits(TOLD_NOTHING), **given)


def controller_settings(**given: Any) -> ControllerConfig:
    """The controller moves nothing by itself, unless a test says so."""
    found = replace(controller_config(TOLD_NOTHING), topic_defaults={}, balance_mode="off")
    return replace(found, **given)
