"""Each room of a broker gets its part of the settings here.

(``app`` tells the controller.)
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_broker.config import UNSPECIFIED_HOSTS, BrokerConfig
from oncelog_broker.coordinator.group.config import GroupConfig
from oncelog_broker.coordinator.transaction.config import TransactionConfig
from oncelog_broker.log.cleaner import CleanerConfig
from oncelog_broker.log.log_manager import LogConfig
from oncelog_broker.replication.ports import ReplicaConfig
from oncelog_broker.server.newcomers import PER_IP_MAX, NewcomerLimits
from oncelog_broker.server.quotas import ConnectionLimits
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_protocol.types import address_text


def log_config(config: BrokerConfig) -> LogConfig:
    """Return the settings of the logs."""
    return LogConfig(
        log_dirs=config.log_dirs,
        flush=config.flush,
        flush_interval_ms=config.flush_interval_ms,
        flush_inline_bytes_max=config.flush_inline_bytes_max,
        log_dir_sync_timeout_ms=config.log_dir_sync_timeout_ms,
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        producer_ids_per_partition_max=config.producer_ids_per_partition_max,
        checkpoint_interval_ms=config.log_checkpoint_interval_ms,
        scrub_interval_ms=config.log_scrub_interval_ms,
        scrub_bytes_per_second=config.log_scrub_bytes_per_second,
        cleaner=CleanerConfig(
            enable=config.log_cleaner_enable,
            backoff_ms=config.log_cleaner_backoff_ms,
            dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_bytes,
            io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
            cpu_percent=config.log_cleaner_cpu_percent,
        ),
        topic_defaults=config.topic_default_texts(),
    )


def replica_config(config: BrokerConfig) -> ReplicaConfig:
    """Return the settings of replication."""
    return ReplicaConfig(
        replica_lag_time_max_ms=config.replica_lag_time_max_ms,
        replica_fetch_wait_max_ms=config.replica_fetch_wait_max_ms,
        replica_fetch_min_bytes=config.replica_fetch_min_bytes,
        replica_fetch_max_bytes=config.replica_fetch_max_bytes,
        replica_fetch_response_max_bytes=config.replica_fetch_response_max_bytes,
        replica_catch_up_min_bytes_per_second=config.replica_catch_up_min_bytes_per_second,
        replica_catch_up_max_bytes_per_second=config.replica_catch_up_max_bytes_per_second,
    )


def group_config(config: BrokerConfig) -> GroupConfig:
    """Return the settings of the group coordinator."""
    return GroupConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        offsets_retention_ms=config.offsets_retention_ms,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
    )


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """Return the settings of the transaction coordinator."""
    return TransactionConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
    )


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """Return the limits of each listener."""
    return ConnectionLimits(
        connections_max=config.max_connections,
        connections_per_ip_max=config.max_connections_per_ip,
        newcomers=NewcomerLimits(
            newcomers_max=config.connections_unauthenticated_max,
            newcomers_per_ip_max=PER_IP_MAX,
            rate_max=config.connection_rate_max,
            rate_per_ip_max=config.connection_rate_max_per_ip,
        ),
        handshake_s=config.connection_handshake_timeout_ms / 1000,
        frame_s=config.request_frame_timeout_ms / 1000,
        idle_s=config.connections_max_idle_ms / 1000,
        in_flight_max=config.max_in_flight_requests,
        unsent_bytes_max=config.connection_unsent_max_bytes,
        stall_s=config.response_stall_timeout_ms / 1000,
    )


def advertised_listeners(
    config: BrokerConfig, addresses: Mapping[str, tuple[str, int]]
) -> list[ListenerAddress]:
    """Return what the registration says of where this broker is; ``addresses`` are those it listens
    at."""
    return [
        ListenerAddress(
            listener.name,
            listener.advertised_host or listener.host,
            listener.advertised_port or addresses[listener.name][1],
        )
        for listener in config.listeners
    ]


def advertised_http(config: BrokerConfig, port: int | None) -> str:
    """Return what the registration says of where metrics and probes are, as ``host:port``; "" when
    they are served nowhere.

    A port that listens on all addresses is found where other brokers find this one.

    :param port: the HTTP port listens here.
    """
    if port is None:
        return ""
    host = config.metrics_host
    if host in UNSPECIFIED_HOSTS:
        found = config.listener(config.inter_broker_listener)
        host = found.advertised_host or found.host
    return address_text(host, port)
