"""A seed draws this before it runs: settings of brokers and clients, the wires, the clocks.

Swarm style: each seed takes another point of the space, far outside of the defaults, because bugs
live where sizes are tiny and time-outs meet. ``Knobs()`` is a calm cluster, for scenarios.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from oncelog.producer.safeguards import SAFE, ProducerSafeguards
from oncelog_runtime.entropy import Entropy
from unsafe.producer import UNSAFE

_TRUTH = {"0": False, "False": False, "1": True, "True": True}

MOVES_SHARE = 0.5
"""So many runs move partitions."""
KAFKA_SHARE = 0.5
"""So many runs have clients of Kafka's."""
DIRS_SHARE = 0.7
"""In so many of these, replicas move between the directories of their brokers as well."""
MOVING_BROKERS = 4
"""At least so many brokers there are then."""

STRATEGIES = (
    "cooperative-sticky",
    "cooperative-sticky",
    "cooperative-sticky,range",
    "sticky",
    "range",
    "roundrobin",
)


@dataclass(frozen=True, slots=True)
class Knobs:
    """It has the values of one run. Times in milliseconds unless the name says seconds."""

    brokers: int = 3
    partitions: int = 4
    replication_factor: int = 3
    min_insync_replicas: int = 2
    flush: str = "commit"
    flush_interval_ms: int = 500
    flush_inline_bytes_max: int = 16 * 1024
    log_dirs: int = 1
    log_dir_sync_timeout_ms: int = 10_000
    """More than ``slow_disk`` takes: a slow disk is not a hung one."""
    segment_bytes: int = 1024 * 1024
    index_interval_bytes: int = 4096
    unclean_election: bool = False
    zookeeper_session_timeout_ms: int = 2000
    replica_lag_time_max_ms: int = 1500
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_max_bytes: int = 1024 * 1024
    leader_imbalance_check_interval_ms: int = 2000
    log_retention_check_interval_ms: int = 1000
    retention_ms: int = 604_800_000
    log_checkpoint_interval_ms: int = 1000
    log_scrub_interval_ms: int = 2000
    controlled_shutdown_timeout_ms: int = 3000
    latency_s: float = 0.0002
    jitter_s: float = 0.0005
    split: float = 0.05
    zookeeper_latency_s: float = 0.001
    sync_s: float = 0.002
    clock_rate_spread: float = 0.0
    clock_offset_s: float = 0.0
    clients: int = 3
    acks: str = "all"
    linger_ms: int = 5
    batch_size: int = 16 * 1024
    value_bytes: int = 50
    retry_backoff_ms: int = 20
    request_timeout_ms: int = 3000
    delivery_timeout_ms: int = 10_000
    max_in_flight: int = 5
    idempotent: bool = True
    """Whether producers are."""
    compression: str = "none"
    groups: int = 0
    """Consumer groups, with members of their own; see ``group_workload``."""
    group_members: int = 2
    group_strategy: str = "cooperative-sticky"
    """The strategy of all groups; several that members offer, with commas."""
    group_static: bool = False
    group_pattern: bool = False
    """Members subscribe by a pattern, not by a list."""
    group_auto_commit: bool = True
    auto_commit_interval_ms: int = 1000
    session_timeout_ms: int = 2000
    heartbeat_interval_ms: int = 400
    max_poll_interval_ms: int = 5000
    group_initial_rebalance_delay_ms: int = 200
    offsets_topic_num_partitions: int = 2
    offsets_retention_ms: int = 604_800_000
    offset_commit_timeout_ms: int = 2000
    coordinator_load_s: float = 0.0
    """How long a coordinator reads its partition, about."""
    compacted: int = 0
    """Partitions of a second topic, which compacts."""
    keys: int = 6
    """The keys of that topic's records, in each partition."""
    compacted_segment_bytes: int = 4096
    """The size for that topic and for the internal one."""
    log_cleaner_backoff_ms: int = 500
    min_cleanable_dirty_ratio: float = 0.3
    delete_retention_ms: int = 86_400_000
    tellers: int = 0
    """Clients with a transactional id each; see ``txn_workload``."""
    accounts: int = 2
    """Partitions between which they transfer."""
    copiers: int = 0
    """Members of the group that copies the workload's topic in transactions."""
    copy_partitions: int = 2
    owners: int = 0
    """Clients that share a transaction with several writers each."""
    txn_abort: float = 0.2
    """How many transactions their applications abort."""
    transaction_timeout_ms: int = 5000
    transaction_state_log_num_partitions: int = 2
    transactional_id_expiration_ms: int = 604_800_000
    producer_epoch_max: int = 32_766
    """At which epoch a transactional id gets another producer id."""
    secured: bool = False
    """Brokers and clients authenticate, and ACLs decide; see ``secured``."""
    security_stale_max_ms: int = 3000
    older: bool = False
    """The last teller's transactions end by number; see ``older_clients``."""
    kafka: bool = False
    """Some clients write and read Kafka's batches; see ``kafka_door``."""
    moves: bool = False
    """Partitions are moved between brokers, of which there are more; see ``move_faults``."""
    dir_moves: bool = False
    """In a run that moves partitions, brokers have several directories; see ``dir_faults``."""
    reinit_after_indefinite: bool = True
    """A rule of producers, which an ablation turns."""
    indefinite_stays_indefinite: bool = True
    """Another."""
    positions_know_topics: bool = True
    """One of consumers."""

    @classmethod
    def draw(cls, entropy: Entropy, forced: Mapping[str, Any] | None = None) -> Knobs:
        """Draw the values of a seed; those that are ``forced`` stand instead of what is drawn."""
        rare, pick = entropy.random, entropy.choice
        drawn = cls(
            min_insync_replicas=2 if rare() < 0.85 else 1,
            flush="commit" if rare() < 0.75 else "interval",
            flush_interval_ms=pick([50, 500, 2000]),
            flush_inline_bytes_max=pick([0, 0, 4096, 16 * 1024]),
            log_dirs=pick([1, 1, 2]),
            log_dir_sync_timeout_ms=pick([6_000, 10_000]),
            segment_bytes=pick([2048, 8192, 65536, 1024 * 1024]),
            index_interval_bytes=pick([1, 256, 4096]),
            zookeeper_session_timeout_ms=pick([600, 1500, 3000]),
            replica_lag_time_max_ms=pick([300, 1000, 3000]),
            replica_fetch_wait_max_ms=pick([100, 500]),
            replica_fetch_max_bytes=pick([1024, 16 * 1024, 1024 * 1024]),
            leader_imbalance_check_interval_ms=pick([300, 2000, 10_000]),
            log_checkpoint_interval_ms=pick([100, 1000, 5000]),
            controlled_shutdown_timeout_ms=pick([500, 3000]),
            latency_s=pick([0.0001, 0.0005, 0.005]),
            jitter_s=pick([0.0002, 0.002, 0.02]),
            split=pick([0.0, 0.02, 0.3]),
            zookeeper_latency_s=pick([0.0005, 0.003, 0.03]),
            sync_s=pick([0.0002, 0.002, 0.02]),
            clock_rate_spread=pick([0.0, 0.0, 0.1]),
            clock_offset_s=pick([0.0, 1000.0]),
            linger_ms=pick([0, 5, 50]),
            batch_size=pick([200, 2000, 16 * 1024]),
            value_bytes=pick([30, 50, 400]),
            request_timeout_ms=pick([1000, 3000]),
            delivery_timeout_ms=pick([4000, 10_000]),
            max_in_flight=pick([1, 5]),
            clients=pick([2, 3]),
            compression=pick(["none", "none", "gzip"]),
            log_scrub_interval_ms=pick([1000, 3000, 10_000]),
            groups=pick([0, 1, 1, 2]),
            group_members=pick([1, 2, 3]),
            group_strategy=pick(STRATEGIES),
            group_static=rare() < 0.3,
            group_pattern=rare() < 0.2,
            group_auto_commit=rare() < 0.5,
            auto_commit_interval_ms=pick([100, 1000, 5000]),
            session_timeout_ms=pick([1000, 2000, 6000]),
            heartbeat_interval_ms=pick([200, 450]),
            max_poll_interval_ms=pick([1000, 3000, 10_000]),
            group_initial_rebalance_delay_ms=pick([0, 200, 1000]),
            offsets_topic_num_partitions=pick([1, 2, 3]),
            offsets_retention_ms=pick([604_800_000, 604_800_000, 4000]),
            offset_commit_timeout_ms=pick([500, 2000]),
            coordinator_load_s=pick([0.0, 0.0, 0.3, 2.0]),
            compacted=pick([0, 1, 2]),
            keys=pick([1, 6, 40]),
            compacted_segment_bytes=pick([1024, 4096, 1024 * 1024]),
            log_cleaner_backoff_ms=pick([100, 500, 3000]),
            min_cleanable_dirty_ratio=pick([0.01, 0.3, 0.7]),
            delete_retention_ms=pick([1000, 86_400_000]),
            idempotent=rare() < 0.85,
        )
        return replace(drawn._with_others(entropy), **(forced or {}))._bounded()

    def _with_others(self, entropy: Entropy) -> Knobs:
        """Draw what came later, in the order in which it came: older seeds stay themselves."""
        drawn = self._with_transactions(entropy)._with_security(entropy)._with_moves(entropy)
        return drawn._with_kafka(entropy)._with_dir_moves(entropy)._with_older(entropy)

    def _with_transactions(self, entropy: Entropy) -> Knobs:
        """Add those who write in transactions; they are drawn last: older seeds stay themselves."""
        pick = entropy.choice
        return replace(
            self,
            tellers=pick([0, 0, 1, 2, 2]),
            accounts=pick([2, 3]),
            copiers=pick([0, 0, 0, 1, 2]),
            copy_partitions=pick([1, 2]),
            owners=pick([0, 0, 1]),
            txn_abort=pick([0.0, 0.2, 0.6]),
            transaction_timeout_ms=pick([1000, 5000, 20_000]),
            transaction_state_log_num_partitions=pick([1, 2, 3]),
            producer_epoch_max=pick([32_766, 32_766, 5]),
            log_retention_check_interval_ms=pick([200, 1000]),
            retention_ms=pick([86_000_000, 604_800_000]),
        )

    def _with_security(self, entropy: Entropy) -> Knobs:
        """Draw who is secured, and how long ACLs may be stale; last, so that other knobs stay."""
        return replace(
            self,
            security_stale_max_ms=entropy.choice([1000, 3000]),
            secured=entropy.random() < 0.25,
        )

    def _with_moves(self, entropy: Entropy) -> Knobs:
        """Draw who moves partitions; last again."""
        return replace(self, moves=entropy.random() < MOVES_SHARE)

    def _with_kafka(self, entropy: Entropy) -> Knobs:
        """Draw whether there are clients of Kafka's; last again."""
        return replace(self, kafka=entropy.random() < KAFKA_SHARE)

    def _with_dir_moves(self, entropy: Entropy) -> Knobs:
        """Draw whether brokers have several directories where partitions move; last again."""
        return replace(self, dir_moves=entropy.random() < DIRS_SHARE)

    def _with_older(self, entropy: Entropy) -> Knobs:
        """Draw whether there is a client from before KIP-890; last again."""
        return replace(self, older=entropy.random() < KAFKA_SHARE)

    def _bounded(self) -> Knobs:
        """Bound them, so that no seed takes much longer than the others."""
        bounded = self
        if bounded.moves:
            log_dirs = max(bounded.log_dirs, 2) if bounded.dir_moves else bounded.log_dirs
            brokers = max(bounded.brokers, MOVING_BROKERS)
            bounded = replace(bounded, brokers=brokers, log_dirs=log_dirs)
        if bounded.groups or bounded.transactional:  # who send and poll too
            bounded = replace(bounded, clients=bounded.clients - 1)
        if bounded.secured:  # subjects work besides
            bounded = replace(bounded, clients=max(1, bounded.clients - 1))
        if bounded.tellers + bounded.copiers + bounded.owners > 1:
            bounded = replace(bounded, clients=1, groups=min(bounded.groups, 1))
        if bounded.copiers:  # whose offsets are lost does its work again
            keep_ms = type(self)().offsets_retention_ms
            bounded = replace(
                bounded,
                groups=min(bounded.groups, 1),
                offsets_retention_ms=keep_ms,
                # One record, one round trip: there is no end to copying.
                batch_size=max(bounded.batch_size, 2000),
            )
        return bounded

    @classmethod
    def read(cls, text: str) -> dict[str, Any]:
        """Return the values that a text such as "secured=1 clients=2" names, to be forced.

        :raises ValueError: there is no such knob, or it cannot have such a value.
        """
        calm = cls()
        values: dict[str, Any] = {}
        for each in text.replace(",", " ").split():
            name, _, value = each.partition("=")
            if name not in cls.__dataclass_fields__:
                raise ValueError(f"{name} is no knob: see tests/simulation/knobs.py")
            known = getattr(calm, name)
            values[name] = _TRUTH[value] if isinstance(known, bool) else type(known)(value)
        return values

    def describe(self) -> str:
        """Return the values that are not the calm ones."""
        calm = Knobs()
        texts = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(calm, field.name)
        ]
        return " ".join(texts) or "the calm ones"

    def producer_safeguards(self) -> ProducerSafeguards:
        """Return the rules of producers that are in force."""
        off = [name for name in UNSAFE if not getattr(self, name)]
        return UNSAFE[off[0]] if off else SAFE

    @property
    def transactional(self) -> bool:
        """Return whether there are transactions."""
        return bool(self.tellers or self.copiers or self.owners)

    @property
    def balances(self) -> bool:
        """Return whether the controller moves partitions besides, so that brokers are alike."""
        return self.moves and self.leader_imbalance_check_interval_ms < 1000

    def broker_settings(self) -> dict[str, Any]:
        """Return what goes into ``BrokerConfig``."""
        return {
            "zookeeper_session_timeout_ms": self.zookeeper_session_timeout_ms,
            "replica_lag_time_max_ms": self.replica_lag_time_max_ms,
            "replica_fetch_wait_max_ms": self.replica_fetch_wait_max_ms,
            "replica_fetch_max_bytes": self.replica_fetch_max_bytes,
            "leader_imbalance_check_interval_ms": self.leader_imbalance_check_interval_ms,
            # Not drawn, so that older seeds keep their other knobs.
            "broker_report_interval_ms": self.leader_imbalance_check_interval_ms,
            "balance_mode": "continuous" if self.balances else "off",
            "balance_interval_ms": 2000,
            "balance_settle_ms": 1000,
            "log_retention_check_interval_ms": self.log_retention_check_interval_ms,
            "log_checkpoint_interval_ms": self.log_checkpoint_interval_ms,
            "log_scrub_interval_ms": self.log_scrub_interval_ms,
            "controlled_shutdown_timeout_ms": self.controlled_shutdown_timeout_ms,
            "flush": self.flush,
            "flush_interval_ms": self.flush_interval_ms,
            "log_dir_sync_timeout_ms": self.log_dir_sync_timeout_ms,
            "flush_inline_bytes_max": self.flush_inline_bytes_max,
            "min_insync_replicas": self.min_insync_replicas,
            "unclean_leader_election_enable": self.unclean_election,
            "group_initial_rebalance_delay_ms": self.group_initial_rebalance_delay_ms,
            "offsets_topic_num_partitions": self.offsets_topic_num_partitions,
            "offsets_topic_segment_bytes": self.compacted_segment_bytes,
            "offsets_retention_ms": self.offsets_retention_ms,
            "offsets_retention_check_interval_ms": min(self.offsets_retention_ms, 60_000) // 4,
            "offset_commit_timeout_ms": self.offset_commit_timeout_ms,
            "transaction_state_log_num_partitions": self.transaction_state_log_num_partitions,
            "transactional_id_expiration_ms": self.transactional_id_expiration_ms,
            "log_cleaner_backoff_ms": self.log_cleaner_backoff_ms,
            "log_cleaner_cpu_percent": 100,
            "topic_defaults": {
                "segment_bytes": str(self.segment_bytes),
                "index_interval_bytes": str(self.index_interval_bytes),
                "min_cleanable_dirty_ratio": str(self.min_cleanable_dirty_ratio),
                "retention_ms": str(self.retention_ms),
                "delete_retention_ms": str(self.delete_retention_ms),
            },
        }
