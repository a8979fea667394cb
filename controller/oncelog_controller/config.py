"""The controller's settings are typed here. Times are in milliseconds, as in Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog_protocol.topic_config import normalise_key


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """The broker's configuration hands these settings to the controller."""

    inter_broker_listener: str
    """Name of the listener at which brokers take orders."""
    num_partitions: int
    default_replication_factor: int
    unclean_leader_election_enable: bool
    """Default of topics that do not say."""
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_ms: int
    move_concurrent_per_broker: int
    """So many replicas may be added on one broker at a time."""
    move_concurrent_max: int
    """So many replicas may be added at a time in all."""
    move_stall_timeout_ms: int
    """A move that was held up for so long gives its place to others."""
    coordinator_preload_timeout_ms: int
    """The next leader of a coordinator's partition is waited for so long, to read it before."""
    balance_tolerance_percent: int
    """So far from the mean may the bytes of a broker be."""
    balance_disk_high_percent: int
    """No plan fills the disks of a broker further than that."""
    balance_mode: str
    """When the controller balances the cluster by itself: ``on_join``, ``continuous``, ``off``."""
    balance_interval_ms: int
    """``continuous`` looks this often."""
    balance_settle_ms: int
    """A broker that has come, or gone, is left alone for so long."""
    balance_dead_after_ms: int
    """A broker that has been gone for so long is replaced; 0: never."""
    internal_topic_factors: Mapping[str, int]
    """The cluster's own topics should have so many replicas."""
    leader_rebalance_delay_ms: int = 1_000
    """How soon after a broker has come back and caught up it gets its leaderships back."""
    order_timeout_ms: int = 30_000
    """An order that is unanswered for so long is sent again, on a new connection."""
    connect_timeout_ms: int = 5_000
    security: bool
    """The controller keeps users, ACLs and quotas: somebody may authenticate, or brokers decide by
    ACLs."""
    topic_defaults: Mapping[str, str]
    """The broker's settings that topics inherit."""

    def defaults(self) -> dict[str, str]:
        """Return the settings of a topic without overrides."""
        unclean = "true" if self.unclean_leader_election_enable else "false"
        inherited = {normalise_key(key): text for key, text in self.topic_defaults.items()}
        return {"unclean_leader_election_enable": unclean, **inherited}
