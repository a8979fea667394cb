"""Every safeguard is switched off, to see the simulator catch it: the proof that the tests test.

A switch is *caught* by a seed when the run without the rule breaks a promise and the same run with
it is clean. Each names the faults that its rule is against, so that few seeds are needed; knobs are
drawn as ever, but for those without which the rule has nothing to do.

Which rule a switch turns off is in docs/rules.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from oncelog_runtime.entropy import SeededEntropy
from simulation import hasty_assignor
from simulation.campaign import Options, Result, run_seed
from simulation.knobs import Knobs
from simulation.shrink import promise_of
from unsafe import controller, coordinators, log, security
from unsafe.replication import without

SAFETY_S = 30.0
NEVER_MS = 10**12


@dataclass(frozen=True, slots=True)
class Ablation:
    """It is one rule, and what it is against."""

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
SECURED = {
    "secured": True,
    "clients": 1,
    "groups": 0,
    "tellers": 0,
    "copiers": 0,
    "owners": 0,
    "compacted": 0,
    "security_stale_max_ms": 1000,
    "request_timeout_ms": 1000,
    "zookeeper_session_timeout_ms": 600,
}
"""Subjects write and read, and few others."""

MOVES = {
    "moves": True,
    "brokers": 4,
    "clients": 2,
    "groups": 0,
    "tellers": 0,
    "copiers": 0,
    "owners": 0,
}

DIR_MOVES = MOVES | {"log_dirs": 2, "flush": "commit", "compacted": 0}
"""Replicas move between directories."""

TXN_COORDINATORS = ("kill_txn_coordinator", "move_txn_coordinator", "isolate_from_followers")

SWITCHES: dict[str, Ablation] = {
    "truncate_to_high_watermark": Ablation(CRASHES),
    "fence_leader_epoch": Ablation(ELECTIONS),
    "join_at_epoch_start": Ablation(
        ("slow_wires", "kill_chasing", "pause", "false_suspicion"),
        {"replica_lag_time_max_ms": 3000},
    ),
    "count_current_epoch_fetches_only": Ablation(ELECTIONS),
    "count_maximal_isr": Ablation(
        ("slow_zookeeper", "slow_wires", "kill_one", "isolate_from_followers")
    ),
    "hold_below_min_isr": Ablation(
        ("isolate_from_followers", "pause", "wipe", "kill_one"), {"min_insync_replicas": 2}
    ),
    "controller.trust_only_complete_replicas": Ablation(
        ("wipe", "kill_chasing", "power_one"), {"min_insync_replicas": 2}
    ),
    "check_broker_epoch": Ablation(("wipe", "slow_wires", "restart", "kill_one")),
    "controller.check_broker_epochs": Ablation(
        ("wipe_a_joiner",), {"min_insync_replicas": 2, "zookeeper_session_timeout_ms": 600}
    ),
    "controller.check_controller_epoch": Ablation(
        ("false_suspicion", "slow_zookeeper", "slow_wires", "isolate_from_followers")
    ),
    "believe_elected_controllers": Ablation(("forged_order",)),
    "controller.hear_the_accused": Ablation(("shunned",)),
    "throttle_spares_in_sync": Ablation(
        ("slow_lane",), MOVES | {"compacted": 0, "replica_lag_time_max_ms": 1000}
    ),
    "controller.finish_needs_added": Ablation(
        ("move_some", "kill_receiver", "isolate_receiver", "pause_receiver"), MOVES
    ),
    "controller.finish_keeps_redundancy": Ablation(
        ("move_some", "kill_one", "isolate_from_followers", "pause"),
        MOVES | {"min_insync_replicas": 1, "replica_lag_time_max_ms": 300},
    ),
    "controller.finish_counts_sound": Ablation(
        ("move_some", "kill_one", "false_suspicion"),
        MOVES
        | {
            "replication_factor": 2,
            "min_insync_replicas": 2,
            "replica_lag_time_max_ms": 3000,
            "zookeeper_session_timeout_ms": 3000,
        },
    ),
    "controller.finish_keeps_isr": Ablation(
        ("move_some", "kill_one", "isolate_from_followers", "pause"),
        MOVES | {"min_insync_replicas": 1, "replica_lag_time_max_ms": 300},
    ),
    "controller.moves_bump_epoch": Ablation(("move_some",), MOVES),
    "origin_counts_for_min_isr": Ablation(
        ("move_some", "isolate_receiver", "pause_receiver"),
        MOVES | {"replication_factor": 2, "min_insync_replicas": 3},
    ),
    "controller.delete_after_write": Ablation(
        ("move_some", "lose_store_reply", "controller_dies_between_writes"), MOVES
    ),
    "controller.remember_leaving": Ablation(("move_some", "kill_receiver"), MOVES),
    "check_identity": Ablation(("wrong_address",), {"min_insync_replicas": 1}),
    "controller.ask_registered_life": Ablation(("clone", "kill_one"), {"min_insync_replicas": 1}),
    "apply_newer_epochs_only": Ablation(ELECTIONS),
    "high_watermark_after_truncation": Ablation(CRASHES),
    "leader_counts_synced_only": Ablation(POWER, {"flush": "commit"}),
    "follower_fetches_synced_only": Ablation(POWER, {"flush": "commit"}),
    "log.sync_directories": Ablation(POWER, {"flush": "commit", "segment_bytes": 2048}),
    "log.keep_damaged_logs": Ablation(("rot", "kill_one"), {"flush": "commit"}),
    "log.remember_producers": Ablation(LOST_ANSWERS, RETRIES),
    "log.remember_five_batches": Ablation(LOST_ANSWERS, RETRIES),
    "log.compare_content": Ablation(
        ("isolate_from_followers", "kill_one", "pause", "slow_wires"),
        {**RETRIES, "delivery_timeout_ms": 1000, "request_timeout_ms": 500},
    ),
    "log.followers_know_producers": Ablation(LOST_ANSWERS, RETRIES),
    "log.rewrite_unsynced": Ablation(("failed_sync", "kill_one", "power_one"), {"flush": "commit"}),
    "log.sync_before_swap": Ablation(
        ("power_in_a_swap",), DIR_MOVES | {"clients": 3, "linger_ms": 0, "sync_s": 0.02}
    ),
    "log.tell_topics_apart": Ablation(
        ("topic_made_again", "disk_read_only"), {"log_dirs": 2, "flush": "commit", "brokers": 3}
    ),
    "log.mark_moved": Ablation(("power_in_a_swap",), DIR_MOVES),
    "log.check_clock": Ablation(
        ("clock_leap", "kill_one"), {"segment_bytes": 2048, "retention_ms": 86_000_000}
    ),
    "give_way_when_stalled": Ablation(
        ("hung_disk",), {"flush": "commit", "flush_inline_bytes_max": 0}
    ),
    "log.give_up_hung_disks": Ablation(("hung_disk",), {"flush": "commit"}),
    "log.distrust_failed_directories": Ablation(
        ("remount", "kill_one"),
        {"flush": "interval", "flush_interval_ms": 500, "min_insync_replicas": 2},
    ),
    "controller.expire_hung_loops": Ablation(("hung_loop",)),
    "log.swap_in_order": Ablation(
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
    "coordinator.wait_for_load": Ablation(COORDINATORS, GROUPS | {"coordinator_load_s": 2.0}),
    "coordinator.fence_generation": Ablation(
        ("pause_member", "slow_member", "rebalance_storm", "bounce_members"),
        {**GROUPS, "session_timeout_ms": 1000},
    ),
    "coordinator.replies_wait_for_commit": Ablation(COORDINATORS, GROUPS),
    "coordinator.outsiders_wait_for_barrier": Ablation(
        ("move_coordinator", "one_way"),
        {**GROUPS, "offsets_topic_num_partitions": 1, "zookeeper_session_timeout_ms": 600},
    ),
    "client.hand_over_after_revocation": Ablation(
        ("rebalance_storm", "bounce_members"),
        {**GROUPS, "group_strategy": "cooperative-sticky"},
        {"group_strategy": hasty_assignor.NAME},
    ),
    "lso_respects_transactions": Ablation(("pause", "kill_one"), TXNS),
    "log.abort_index_before_lso": Ablation(("pause", "kill_one"), TXNS),
    "log.verify_transactions": Ablation(
        ("late_requests", "pause_txn_client", "bounce_txn_clients", "slow_wires"), TXNS
    ),
    "coordinator.bump_epoch_per_txn": Ablation(("late_requests", "reset"), TXNS),
    "log.markers_need_newer_epoch": Ablation(("late_requests", *TXN_COORDINATORS), TXNS),
    "log.markers_need_newer_number": Ablation(
        ("late_requests", *TXN_COORDINATORS), TXNS | {"older": True}
    ),
    "coordinator.all_markers_before_next": Ablation(
        ("late_markers", "kill_txn_coordinator"), TXNS | {"older": True}
    ),
    "coordinator.prepare_before_markers": Ablation(
        ("decide_alone",), TXNS | {"replica_lag_time_max_ms": 3000}
    ),
    "coordinator.confirm_deletions": Ablation(("stale_image",), TXNS),
    "coordinator.require_stable": Ablation(
        ("late_markers",),
        TXNS | {"tellers": 0, "copiers": 2, "clients": 2, "session_timeout_ms": 6000},
    ),
    "client.indefinite_stays_indefinite": Ablation(
        LOST_ANSWERS,
        RETRIES | {"delivery_timeout_ms": 1000, "request_timeout_ms": 500},
        {"indefinite_stays_indefinite": False},
    ),
    "client.reinit_after_indefinite": Ablation(
        ("reset", "isolate_with_client", "isolate_from_clients", "pause"),
        TXNS | {"delivery_timeout_ms": 600, "request_timeout_ms": 300, "txn_abort": 0.6},
        {"reinit_after_indefinite": False},
    ),
    "client.positions_know_topics": Ablation(
        ("topic_made_again",), without={"positions_know_topics": False}
    ),
    "security.bind_broker_id": Ablation(
        ("borrowed_identity", "kill_one"), SECURED | {"replica_lag_time_max_ms": 3000}
    ),
    "security.close_revoked": Ablation(("delete_user", "change_password"), SECURED),
    "security.newer_version_only": Ablation(
        ("late_security_order",), SECURED | {"security_stale_max_ms": 3000}
    ),
    "truncate_on_divergence": Ablation(CRASHES),
    "ignore_diverging_fetches": Ablation(CRASHES),
}
"""Switches by the name of the field that is turned, with the room it belongs to; "client." stands
for rules of clients, which are turned by knobs."""


def arguments(name: str) -> dict[str, Any]:
    """Return what a ``SimCluster`` is given to go without one rule."""
    if name.startswith("client."):
        return {}
    if name == "log.give_up_hung_disks":
        return {"settings": {"log_dir_sync_timeout_ms": NEVER_MS}}
    if disk := log.UNSAFE_FILES.get(name.removeprefix("log.")):
        return {"files": disk}
    if name.startswith("coordinator."):
        rule = name.removeprefix("coordinator.")
        turned: dict[str, Any] = {"coordinator_safeguards": coordinators.without(rule)}
        if rule == "bump_epoch_per_txn":  # partitions would take no marker of the old epoch
            turned["safeguards"] = without("log.markers_need_newer_epoch")
        return turned
    if name == "controller.expire_hung_loops":
        return {"expire_hung_loops": False}
    if name.startswith("controller."):
        rule = name.removeprefix("controller.")
        return {"controller_safeguards": controller.without(rule)}
    if name.startswith("security."):
        rule = name.removeprefix("security.")
        return {"security_safeguards": security.without(rule)}
    turned = {"safeguards": without(name)}
    if name == "check_identity":  # each end checks
        turned["controller_safeguards"] = controller.without("check_identity")
    return turned


def run_without(name: str, seed: int, *, ablate: bool = True) -> Result:
    """Run one seed of one switch; ``ablate=False`` is the same run with the rule in force."""
    ablation = SWITCHES[name]
    drawn = Knobs.draw(SeededEntropy(seed).fork("knobs"), {"secured": False, "moves": False})
    drawn = replace(drawn, **ablation.knobs)
    return run_seed(
        seed,
        Options(
            safety_s=SAFETY_S,
            faults=ablation.faults,
            knobs=replace(drawn, **(ablation.without if ablate else {})),
            safeguards=arguments(name) if ablate else {},
        ),
    )


def seeds_needed(name: str, seeds: int) -> tuple[int | None, str]:
    """Return how many seeds catch the lack of a rule, and the promise that broke; None: never."""
    for seed in range(1, seeds + 1):
        result = run_without(name, seed)
        if not result.clean and run_without(name, seed, ablate=False).clean:
            return seed, promise_of(result)
    return None, ""
