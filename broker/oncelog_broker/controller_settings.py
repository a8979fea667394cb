"""The controller in a broker is told its settings here, and which may be set for brokers.

It is one of the few modules of the broker that know the controller: ``ARCHITECTURE.md`` names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from oncelog_broker.config import BrokerConfig, dynamic
from oncelog_controller.broker_lifecycle import BrokerLifecycle
from oncelog_controller.config import ControllerConfig
from oncelog_controller.features import KAFKA_BATCHES, TRANSACTIONS_BY_NUMBER
from oncelog_protocol.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC
from oncelog_protocol.messages.admin import ConfigEntry
from oncelog_protocol.messages.replication import BROKER_DEFAULT
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

Texts = Mapping[str, str]


class ControllerSettings:
    """It is the ``BrokerSettings`` of a controller whose broker was started with ``config``."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def altered(
        self, broker_id: int, configs: Mapping[int, Texts], entries: Sequence[ConfigEntry]
    ) -> dict[str, str]:
        """See the port. Nothing is known here of other brokers' files and environments: a broker
        leaves out itself what does not go together with its own."""
        return dynamic.altered(self._config, broker_id, configs, entries)

    def controller_config(self, configs: Mapping[int, Texts]) -> ControllerConfig:
        """See the port."""
        default = configs.get(BROKER_DEFAULT, {})
        own = configs.get(self._config.broker_id, {})
        current, _, _, faults = dynamic.tolerant(self._config, default, own)
        for fault in faults:
            logger.error("setting_left_out", error=fault)
        return controller_config(current)


def controller_config(config: BrokerConfig) -> ControllerConfig:
    """Return the settings of the controller."""
    return ControllerConfig(
        inter_broker_listener=config.inter_broker_listener,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_ms,
        move_concurrent_per_broker=config.move_concurrent_per_broker,
        move_concurrent_max=config.move_concurrent_max,
        move_stall_timeout_ms=config.move_stall_timeout_ms,
        coordinator_preload_timeout_ms=config.coordinator_preload_timeout_ms,
        balance_tolerance_percent=config.balance_tolerance_percent,
        balance_disk_high_percent=config.balance_disk_high_percent,
        balance_mode=config.balance_mode,
        balance_interval_ms=config.balance_interval_ms,
        balance_settle_ms=config.balance_settle_ms,
        balance_dead_after_ms=config.balance_dead_after_ms,
        internal_topic_factors={
            GROUP_TOPIC: config.offsets_topic_replication_factor,
            TRANSACTION_TOPIC: config.transaction_state_log_replication_factor,
        },
        # ACLs can be made before brokers decide by them: the restarts that begin it deny nothing.
        security=keeps_users(config),
        topic_defaults=config.topic_default_texts(),
    )


def keeps_users(config: BrokerConfig) -> bool:
    """Return whether the cluster has users, ACLs and quotas, which the controller keeps."""
    by_sasl = any(listener.sasl_mechanisms for listener in config.listeners)
    return by_sasl or config.authorizer == "acl"


class TakesNumbers(Protocol):
    """It is a broker, as far as it says whether transactions may end by number."""

    config: BrokerConfig
    lifecycle: BrokerLifecycle | None


def takes_numbers(broker: TakesNumbers) -> bool:
    """Return whether transactions may end by number at a broker: it is enabled, and every broker
    knows what that is."""
    if not broker.config.transaction_by_number_enable or broker.lifecycle is None:
        return False
    return broker.lifecycle.uses(TRANSACTIONS_BY_NUMBER)


def wanted_features(config: BrokerConfig, wants: Collection[str]) -> tuple[str, ...]:
    """Return the features that a broker with these settings wants in use, ``wants`` among them."""
    if not any(listener.protocol == "kafka" for listener in config.listeners):
        return tuple(wants)
    numbers = (TRANSACTIONS_BY_NUMBER,) if config.transaction_by_number_enable else ()
    return (*wants, KAFKA_BATCHES, *numbers)
