"""Every safeguard switched off, to see the simulator catch it: the proof that the tests test.

A switch is *caught* by a seed when the run without the rule breaks a promise and the same run with
it is clean. Each names the faults that its rule is against, so that few seeds are needed; knobs are
drawn as ever, but for those without which the rule has nothing to do.

The numbers are those of RELIABILITY 10.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from oncelog_broker.coordinator.safeguards import without as without_coordinators
from oncelog_broker.replication.safeguards import without
from oncelog_controller.safeguards import ControllerSafeguards
from oncelog_runtime.entropy import SeededEntropy
from simulation import hasty_assignor
from simulation.campaign import Options, Result, run_seed
from simulation.knobs import Knobs
from simulation.shrink import promise_of

SAFETY_S = 30.0


@dataclass(frozen=True, slots=True)
class Ablation:
    """One rule, and what it is against."""

    number: int
    """In the list of ablations; 0: not there."""
    faults: tuple[str, ...]
    knobs: dict[str, Any] = field(default_factory=dict)
    """These instead of what is drawn."""
    without: dict[str, Any] = field(default_factory=dict)
    """And these in the run without the rule, where it is one of clients."""


CRASHES = ("kill_one", "kill_chasing", "kill_all", "pause", "isolate_from_followers")
POWER = ("power_one", "power_all", "kill_one", "failed_sync")
COORDINATORS = ("kill_coordinator", "move_coordinator", "bounce_members", "isolate_from_followers")
GROUPS = {
    "groups": 2,
    "group_members": 2,
    "group_strategy": "cooperative-sticky",
    "offsets_retention_ms": 604_800_000,
}
ELECTIONS = ("kill_one", "pause", "false_suspicion", "expire_one", "slow_wires", "bridge")
LOST_ANSWERS = ("reset", "kill_one", "isolate_with_client", "isolate_from_clients", "pause")
RETRIES = {
    "idempotent": True,
    "max_in_flight": 5,
    "batch_size": 200,
    "value_bytes": 400,
    "linger_ms": 0,
    "partitions": 2,
    "compacted": 0,
    "latency_s": 0.005,
    "delivery_timeout_ms": 10_000,
}
"""Five batches are under way to a partition as a rule."""

TXNS = {
    "tellers": 2,
    "copiers": 1,
    "groups": 0,
    "clients": 1,
    "idempotent": True,
    "txn_abort": 0.3,
    "transaction_timeout_ms": 5000,
    "transaction_state_log_num_partitions": 1,
}
TXN_COORDINATORS = ("kill_txn_coordinator", "move_txn_coordinator", "isolate_from_followers")

SWITCHES: dict[str, Ablation] = {
    "truncate_to_high_watermark": Ablation(1, CRASHES),
    "fence_leader_epoch": Ablation(2, ELECTIONS),
    "join_at_epoch_start": Ablation(
        3,
        ("slow_wires", "kill_chasing", "pause", "false_suspicion"),
        {"replica_lag_time_max_ms": 3000},
    ),
    "count_current_epoch_fetches_only": Ablation(3, ELECTIONS),
    "count_maximal_isr": Ablation(
        4, ("slow_zookeeper", "slow_wires", "kill_one", "isolate_from_followers")
    ),
    "hold_below_min_isr": Ablation(
        5, ("isolate_from_followers", "pause", "wipe", "kill_one"), {"min_insync_replicas": 2}
    ),
    "controller.trust_only_complete_replicas": Ablation(
        6, ("wipe", "kill_chasing", "power_one"), {"min_insync_replicas": 2}
    ),
    "check_broker_epoch": Ablation(7, ("wipe", "slow_wires", "restart", "kill_one")),
    "controller.check_broker_epochs": Ablation(
        7, ("wipe_a_joiner",), {"min_insync_replicas": 2, "zookeeper_session_timeout_ms": 600}
    ),
    "controller.check_controller_epoch": Ablation(
        8, ("false_suspicion", "slow_zookeeper", "slow_wires", "isolate_from_followers")
    ),
    "apply_newer_epochs_only": Ablation(9, ELECTIONS),
    "high_watermark_after_truncation": Ablation(10, CRASHES),
    "leader_counts_synced_only": Ablation(11, POWER, {"flush": "commit"}),
    "follower_fetches_synced_only": Ablation(12, POWER, {"flush": "commit"}),
    "log.sync_directories": Ablation(13, POWER, {"flush": "commit", "segment_bytes": 2048}),
    "log.keep_damaged_logs": Ablation(14, ("rot", "kill_one"), {"flush": "commit"}),
    "log.remember_producers": Ablation(15, LOST_ANSWERS, RETRIES),
    "log.remember_five_batches": Ablation(15, LOST_ANSWERS, RETRIES),
    "log.compare_content": Ablation(
        16,
        ("isolate_from_followers", "kill_one", "pause", "slow_wires"),
        {**RETRIES, "delivery_timeout_ms": 1000, "request_timeout_ms": 500},
    ),
    "log.followers_know_producers": Ablation(17, LOST_ANSWERS, RETRIES),
    "log.rewrite_unsynced": Ablation(
        0, ("failed_sync", "kill_one", "power_one"), {"flush": "commit"}
    ),
    "log.swap_in_order": Ablation(
        0,
        ("end_in_a_swap", "power_all", "kill_one"),
        {
            "flush": "commit",
            "compacted": 2,
            "keys": 6,
            "compacted_segment_bytes": 1024,
            "log_cleaner_backoff_ms": 100,
            "min_cleanable_dirty_ratio": 0.01,
        },
    ),
    "coordinator.wait_for_load": Ablation(24, COORDINATORS, GROUPS | {"coordinator_load_s": 2.0}),
    "coordinator.fence_generation": Ablation(
        25,
        ("pause_member", "slow_member", "rebalance_storm", "bounce_members"),
        {**GROUPS, "session_timeout_ms": 1000},
    ),
    "coordinator.replies_wait_for_commit": Ablation(0, COORDINATORS, GROUPS),
    "coordinator.outsiders_wait_for_barrier": Ablation(
        0,
        ("move_coordinator", "one_way"),
        {**GROUPS, "offsets_topic_num_partitions": 1, "zookeeper_session_timeout_ms": 600},
    ),
    "client.hand_over_after_revocation": Ablation(
        27,
        ("rebalance_storm", "bounce_members"),
        {**GROUPS, "group_strategy": "cooperative-sticky"},
        {"group_strategy": hasty_assignor.NAME},
    ),
    "lso_respects_transactions": Ablation(18, ("pause", "kill_one"), TXNS),
    "log.abort_index_before_lso": Ablation(19, ("pause", "kill_one"), TXNS),
    "log.verify_transactions": Ablation(
        20, ("late_requests", "pause_txn_client", "bounce_txn_clients", "slow_wires"), TXNS
    ),
    "coordinator.bump_epoch_per_txn": Ablation(21, ("late_requests", "reset"), TXNS),
    "log.markers_need_newer_epoch": Ablation(22, ("late_requests", *TXN_COORDINATORS), TXNS),
    "coordinator.prepare_before_markers": Ablation(
        23, ("decide_alone",), TXNS | {"replica_lag_time_max_ms": 3000}
    ),
    "coordinator.require_stable": Ablation(
        26,
        ("late_markers",),
        TXNS | {"tellers": 0, "copiers": 2, "clients": 2, "session_timeout_ms": 6000},
    ),
    "client.indefinite_stays_indefinite": Ablation(
        28,
        LOST_ANSWERS,
        RETRIES | {"delivery_timeout_ms": 1000, "request_timeout_ms": 500},
        {"indefinite_stays_indefinite": False},
    ),
    "client.reinit_after_indefinite": Ablation(
        29,
        ("reset", "isolate_with_client", "isolate_from_clients", "pause"),
        TXNS | {"delivery_timeout_ms": 600, "request_timeout_ms": 300, "txn_abort": 0.6},
        {"reinit_after_indefinite": False},
    ),
    "truncate_on_divergence": Ablation(0, CRASHES),
    "ignore_diverging_fetches": Ablation(0, CRASHES),
}
"""By the name of the field that is turned, with the room it belongs to; "client." stands for rules
of clients, which are turned by knobs."""


def arguments(name: str) -> dict[str, Any]:
    """What ``Broker`` is given to go without one rule."""
    if name.startswith("client."):
        return {}
    if name.startswith("coordinator."):
        rule = name.removeprefix("coordinator.")
        turned: dict[str, Any] = {"coordinator_safeguards": without_coordinators(rule)}
        if rule == "bump_epoch_per_txn":  # partitions would take no marker of the old epoch
            turned["safeguards"] = without("log.markers_need_newer_epoch")
        return turned
    if name.startswith("controller."):
        rule = name.removeprefix("controller.")
        return {"controller_safeguards": ControllerSafeguards(**{rule: False})}
    return {"safeguards": without(name)}


def run_without(name: str, seed: int, *, ablate: bool = True) -> Result:
    """One seed of one switch; ``ablate=False`` is the same run with the rule in force."""
    ablation = SWITCHES[name]
    drawn = Knobs.draw(SeededEntropy(seed).fork("knobs"))
    return run_seed(
        seed,
        Options(
            safety_s=SAFETY_S,
            faults=ablation.faults,
            knobs=replace(drawn, **(ablation.knobs | (ablation.without if ablate else {}))),
            safeguards=arguments(name) if ablate else {},
        ),
    )


def seeds_needed(name: str, seeds: int) -> tuple[int | None, str]:
    """After how many seeds the lack of a rule is caught, and by which promise; None: never."""
    for seed in range(1, seeds + 1):
        result = run_without(name, seed)
        if not result.clean and run_without(name, seed, ablate=False).clean:
            return seed, promise_of(result)
    return None, ""
