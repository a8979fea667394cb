"""Runs have reached rare states: 'sometimes' assertions are counted over a campaign.

Three sources feed the counters: log lines of the product, whose names are stable; what is written
to the metadata store; and ``hit``, for what the simulator sees itself. A name that stays at zero
over a whole campaign means that the workload or the faults miss something.

The same handler keeps the warnings and errors of a run, for [A19].
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from oncelog_protocol.types import NO_LEADER
from oncelog_runtime.logs import LogEvent
from simulation.checkers.no_alarm_in_the_logs import LogLine
from simulation.store_view import StateChange, StoreState

__all__ = ["FROM_LOGS", "FROM_STORE", "NAMES", "Coverage", "Sight"]

LOGGERS = (
    "oncelog",
    "oncelog_broker",
    "oncelog_controller",
    "oncelog_protocol",
    "oncelog_runtime",
)
"""Those of the product; "asyncio" is listened to beside them, for warnings."""

When = Callable[[Any], bool]


class Sight(NamedTuple):
    """It is a log line that shows a state."""

    name: str
    logger: str
    line: str
    """The name of the event; of clients the text, with its places."""
    when: When | None = None
    """Whether the line's fields mean it, by name, or by number in a text; None: always."""


def _says(field: str, *texts: str) -> When:
    return lambda fields: any(text in str(fields[field]) for text in texts)


def _is(index: int, *names: str) -> When:
    return lambda args: type(args[index]).__name__ in names


_SERVICE = "oncelog_controller.broker_states"
_ELECTIONS = "oncelog_controller.leadership"
_CLOCKS = "oncelog_broker.clock_watch"
_PARTITION = "oncelog_broker.replication.partition"
_LEADERSHIP = "oncelog_broker.replication.leadership"
_REPAIR = "oncelog_broker.replication.repair"
_FOLLOWER = "oncelog_broker.replication.follower"
_FETCH_LOOP = "oncelog_broker.replication.fetch_loop"
_MANAGER = "oncelog_broker.replication.replica_manager"
_LOG_DIR = "oncelog_broker.log.log_dir"
_LOG_MANAGER = "oncelog_broker.log.log_manager"
_DIR_MOVE = "oncelog_broker.log.dir_move"
_DIR_MOVES = "oncelog_broker.log.dir_moves"
_PRODUCERS = "oncelog_broker.log.log_producers"
_RECOVERY = "oncelog_broker.log.recovery"
_ISR = "oncelog_broker.replication.isr_sender"
_MACHINE = "oncelog_controller.machine"
_RUNNER = "oncelog_controller.runner"
_GATEWAY = "oncelog_controller.broker_gateway"
_MEMBERSHIP = "oncelog_controller.broker_lifecycle"
_SENDER = "oncelog.producer.outcomes"
_FETCHER = "oncelog.consumer.fetcher"

_LISTENER = "oncelog_broker.server.listener"
_CLEANER = "oncelog_broker.log.cleaner"
_INTERNAL = "oncelog_broker.server.internal_topics"
_ENGINE = "oncelog_broker.coordinator.engine"
_SHADOWS = "oncelog_broker.coordinator.shadows"
_SHARD = "oncelog_broker.coordinator.led_shard"
_ROUNDS = "oncelog_broker.coordinator.group.rounds"
_MEMBERS = "oncelog_broker.coordinator.group.classic_protocol"
_GROUPS = "oncelog_broker.coordinator.group.shard"
_TXNS = "oncelog_broker.coordinator.transaction.shard"
_MARKERS = "oncelog_broker.transactions.marker_sender"
_MEMBER = "oncelog.consumer.group.member"

_RETRIED = "%s: batch will be tried again: %s"
_FETCH = "fetch: %s"

FROM_LOGS: tuple[Sight, ...] = (
    # logs and disks
    Sight("torn_tail_cut", _RECOVERY, "unsynced_tail_truncated"),
    Sight("unsynced_segment_removed", _RECOVERY, "unsynced_segment_removed"),
    Sight("clock_leapt", _CLOCKS, "clock_leapt"),
    Sight("log_damaged", _RECOVERY, "log_damaged"),
    Sight("rot_found", _REPAIR, "replica_damaged"),
    Sight("damaged_log_refetched", _REPAIR, "replica_whole_again"),
    Sight("directory_offline", _LOG_DIR, "log_dir_offline"),
    Sight(
        "failed_sync", _LOG_DIR, "log_dir_offline", lambda f: str(f["error"]).startswith("sync:")
    ),
    Sight(
        "hung_sync",
        _LOG_DIR,
        "log_dir_offline",
        lambda f: str(f["error"]).startswith("sync: no sync"),
    ),
    Sight(
        "failed_append",
        _LOG_DIR,
        "log_dir_offline",
        lambda f: str(f["error"]).startswith("append "),
    ),
    Sight("disk_full", _LOG_DIR, "log_dir_full"),
    Sight("disk_has_room_again", _LOG_DIR, "log_dir_has_room"),
    Sight("index_rebuilt", "oncelog_broker.log.segment", "segment_index_rebuilt"),
    # moves between directories
    Sight("log_moved", _DIR_MOVE, "log_moved"),
    Sight("log_move_ended", _DIR_MOVES, "log_move_ended"),
    Sight("log_away", _LOG_MANAGER, "log_away"),
    # followers
    Sight(
        "diverging_truncation", _PARTITION, "follower_truncated", lambda f: f["before"] > f["after"]
    ),
    Sight(
        "divergence_without_cut",
        _PARTITION,
        "follower_truncated",
        lambda f: f["before"] == f["after"],
    ),
    Sight("log_begun_anew", _PARTITION, "follower_began_anew"),
    Sight("follower_lost_committed", _LEADERSHIP, "follower_lost_records"),
    Sight("follower_lags", _LEADERSHIP, "followers_lag"),
    Sight(
        "fenced_leader_epoch", _FOLLOWER, "follower_refused", _says("error", "FENCED_LEADER_EPOCH")
    ),
    Sight(
        "unknown_leader_epoch",
        _FOLLOWER,
        "follower_refused",
        _says("error", "UNKNOWN_LEADER_EPOCH"),
    ),
    Sight(
        "not_leader_or_follower",
        _FOLLOWER,
        "follower_refused",
        _says("error", "NOT_LEADER_OR_FOLLOWER"),
    ),
    Sight("leader_storage_error", _FOLLOWER, "follower_refused", _says("error", "STORAGE_ERROR")),
    Sight(
        "stale_fetch_refused", _FOLLOWER, "follower_refused", _says("error", "STALE_BROKER_EPOCH")
    ),
    Sight("replica_came_near", _FOLLOWER, "follower_changes_lane", _says("lane", "MAIN")),
    Sight("replica_found_far", _FOLLOWER, "follower_changes_lane", _says("lane", "CATCH_UP")),
    Sight("follower_cannot_write", _FOLLOWER, "follower_cannot_write"),
    Sight("leader_unreachable", _FETCH_LOOP, "fetch_no_connection"),
    Sight("leader_silent", _FETCH_LOOP, "fetch_silent"),
    Sight("role_change_failed", _PARTITION, "role_not_changed"),
    # the ISR
    Sight("isr_shrunk", _LEADERSHIP, "isr_changed", lambda f: len(f["before"]) > len(f["after"])),
    Sight("isr_expanded", _LEADERSHIP, "isr_changed", lambda f: len(f["before"]) < len(f["after"])),
    Sight("alter_partition_unanswered", _ISR, "isr_change_uncertain"),
    Sight("alter_partition_all_refused", _ISR, "isr_changes_refused"),
    Sight(
        "alter_partition_refused", _ISR, "isr_change_answered", _says("error", "INELIGIBLE_REPLICA")
    ),
    Sight(
        "alter_partition_superseded", _ISR, "isr_change_answered", _says("error", "UPDATE_VERSION")
    ),
    Sight(
        "alter_partition_fenced", _ISR, "isr_change_answered", _says("error", "FENCED_LEADER_EPOCH")
    ),
    # the controller
    Sight("led_astray", "oncelog_controller.link", "link_leads_astray"),
    Sight("broker_suspected", _MACHINE, "broker_suspected"),
    Sight("false_suspicion_cleared", _MACHINE, "broker_cleared"),
    Sight("accusation_refuted", "oncelog_controller.accusations", "accusation_refuted"),
    Sight(
        "controller_disbelieved", "oncelog_broker.server.controller_fence", "controller_disbelieved"
    ),
    Sight("controller_sat_out", _RUNNER, "controller_sits_out"),
    Sight("replicas_failed", _MACHINE, "replicas_failed"),
    Sight("directory_failure_reported", "oncelog_controller.term", "log_dirs_reported_failed"),
    Sight(
        "controller_reloads",
        "oncelog_controller.term",
        "controller_loads",
        lambda f: f["why"] != "elected",
    ),
    Sight(
        "write_outcome_unknown",
        "oncelog_controller.term",
        "controller_loads",
        _says("why", "Disconnected"),
    ),
    Sight("controller_deposed", "oncelog_controller.campaign", "controller_deposed"),
    Sight("controller_session_expired", _RUNNER, "controller_resigned", _says("reason", "expired")),
    Sight(
        "zombie_controller_fenced",
        _RUNNER,
        "controller_resigned",
        _says("reason", "fenced", "newer controller"),
    ),
    Sight(
        "controller_succeeded",
        _RUNNER,
        "controller_resigned",
        _says("reason", "is controller of epoch", "/controller"),
    ),
    Sight("controller_of_former_life", _RUNNER, "former_controller_node"),
    Sight("orders_void", _GATEWAY, "orders_void"),
    Sight(
        "order_before_registration",
        _GATEWAY,
        "order_failed",
        _says("error", "BROKER_NOT_AVAILABLE"),
    ),
    Sight("preferred_leaders_restored", "oncelog_controller.leadership", "leaders_preferred"),
    Sight("controlled_shutdown", "oncelog_controller.leadership", "broker_shuts_down"),
    Sight("controlled_shutdown_stuck", "oncelog_broker.app", "controlled_shutdown_incomplete"),
    # sessions
    Sight("session_expired", _MEMBERSHIP, "session_expired"),
    Sight("registered_again", _MEMBERSHIP, "broker_registers_again"),
    Sight("former_registration_removed", _MEMBERSHIP, "former_registration_removed"),
    # requests
    Sight("long_poll_expired", "oncelog_broker.replication.consumer_fetch", "fetch_waited"),
    Sight("acks_timed_out", "oncelog_broker.server.handlers.produce", "produce_waited"),
    Sight("duplicate_answered", _PRODUCERS, "producer_repeats"),
    Sight(
        "duplicate_of_the_fifth_last",
        _PRODUCERS,
        "producer_repeats",
        lambda f: f["batches_since"] == 4,
    ),
    Sight("producers_read_after_a_cut", _PRODUCERS, "producers_read_again"),
    Sight("partition_begun_anew", _SENDER, "%s; the partition begins anew"),
    Sight("not_enough_replicas", _SENDER, _RETRIED, _is(1, "NotEnoughReplicasError")),
    Sight(
        "not_enough_replicas_after_append",
        _SENDER,
        _RETRIED,
        _is(1, "NotEnoughReplicasAfterAppendError"),
    ),
    Sight("produce_to_former_leader", _SENDER, _RETRIED, _is(1, "NotLeaderOrFollowerError")),
    Sight("produce_timed_out", _SENDER, _RETRIED, _is(1, "RequestTimedOutError")),
    Sight("produce_storage_error", _SENDER, _RETRIED, _is(1, "StorageError")),
    Sight(
        "controller_asked_again",
        "oncelog_broker.server.controller_channel",
        "controller_asked_again",
    ),
    Sight("consumer_truncated", _FETCHER, "%s: the log was truncated to %d, below %d"),
    Sight("consumer_out_of_range", _FETCHER, "%s: offset %d is out of range, reset to %s"),
    Sight("consumer_fetch_failed", _FETCHER, _FETCH),
    # compaction
    Sight("log_compacted", _CLEANER, "log_compacted"),
    Sight("records_compacted", _CLEANER, "log_compacted", lambda f: f["records"] > 0),
    Sight("compaction_disturbed", _CLEANER, "compaction_overtaken"),
    Sight("swap_finished_at_start", _RECOVERY, "compacted_segment_removed"),
    # coordinators
    Sight("internal_topic_made", _INTERNAL, "internal_topic_ready"),
    Sight("coordinator_loaded", _ENGINE, "coordinator_loaded"),
    Sight("coordinator_loaded_records", _ENGINE, "coordinator_loaded", lambda f: f["records"] > 0),
    Sight("shadow_adopted", _SHADOWS, "coordinator_shadow_adopted"),
    Sight("shadow_thrown_away", _SHADOWS, "coordinator_shadow_thrown_away"),
    Sight("coordinator_given_up", _ENGINE, "coordinator_resigned"),
    Sight("coordinator_load_failed", _ENGINE, "coordinator_load_delayed"),
    Sight("coordinator_append_refused", _SHARD, "coordinator_append_refused"),
    Sight("coordinator_commit_late", _SHARD, "coordinator_answers_late"),
    # groups
    Sight("rebalance_of_stable", _ROUNDS, "group_rebalance", _says("state", "Stable")),
    Sight(
        "rebalance_interrupted", _ROUNDS, "group_rebalance", _says("state", "CompletingRebalance")
    ),
    Sight("member_died", _ROUNDS, "group_rebalance", _says("reason", "no sign of life")),
    Sight("member_joined", _ROUNDS, "group_rebalance", _says("reason", " joins")),
    Sight("member_left", _ROUNDS, "group_rebalance", _says("reason", " left")),
    Sight("member_missed_round", _ROUNDS, "group_member_did_not_join"),
    Sight("group_emptied", _ROUNDS, "group_empty"),
    Sight("static_member_back", _MEMBERS, "group_member_replaced"),
    Sight("offsets_expired", _GROUPS, "group_offsets_expired"),
    Sight("partitions_lost", _MEMBER, "group %s: lost %d partitions: %s"),
    Sight("poll_too_late", _MEMBER, "%s"),
    Sight(
        "coordinator_moved",
        "oncelog.consumer.group.coordinator",
        "group %s: broker %d does not coordinate it now (%s), looking for who does",
    ),
    # brokers that are taken out of service
    Sight("broker_drained", _SERVICE, "broker_state_changed", _says("state", "draining")),
    Sight("broker_retires", _SERVICE, "broker_state_changed", _says("state", "decommissioning")),
    Sight(
        "broker_decommissioned", _SERVICE, "broker_state_changed", _says("state", "decommissioned")
    ),
    Sight("broker_active_again", _SERVICE, "broker_state_changed", _says("state", "active")),
    Sight("leaderships_given_up", _ELECTIONS, "leaderships_given_up"),
    # security
    Sight("acls_changed", "oncelog_broker.server.acl_authorizer", "acls_changed"),
    Sight(
        "users_changed",
        "oncelog_broker.server.users",
        "users_changed",
        lambda f: f["changed"] > 0,
    ),
    Sight(
        "authentication_failed",
        "oncelog_broker.server.handlers.authenticate",
        "authentication_failed",
    ),
    Sight("connection_of_changed_user", _LISTENER, "connection_refused", _says("reason", "user")),
    Sight("broker_not_believed", _LISTENER, "connection_refused", _says("what", "not taken for a")),
    Sight("clients_refused", "oncelog_broker.security_watch", "clients_refused"),
    Sight("clients_served_again", "oncelog_broker.security_watch", "clients_served_again"),
    # transactions
    Sight("txn_timed_out", _TXNS, "transaction_timed_out"),
    Sight("transactional_ids_expired", _TXNS, "transactional_ids_expired"),
    Sight("markers_unanswered", _MARKERS, "markers_sent_again"),
    Sight("marker_sent_again", _MARKERS, "marker_delayed"),
    Sight("marker_of_former_coordinator", _MARKERS, "marker_of_older_coordinator_refused"),
    Sight("marker_refused", "oncelog_broker.transactions.marker_writer", "marker_refused"),
    Sight(
        "verification_unanswered",
        "oncelog_broker.transactions.txn_verification",
        "transaction_verification_failed",
    ),
    Sight(
        "txn_batch_refused",
        "oncelog_broker.transactions.verified_appends",
        "transaction_batch_refused",
    ),
    Sight(
        "producer_fenced",
        "oncelog.producer.transactions.transactions",
        "%s: no more transactions here: %s",
    ),
    Sight(
        "offsets_not_settled",
        "oncelog.consumer.positions",
        "still waiting for offsets that are not settled: %s",
    ),
    Sight(
        "aborted_index_read_anew",
        "oncelog_broker.log.aborted_transactions",
        "aborted_index_rebuilt",
    ),
    Sight(
        "revoked_uncommitted",
        "oncelog.consumer.group.handover",
        "group %s: what was read of %s since the last commit will be read again: %s",
    ),
)

FROM_STORE = {
    "controller_elected": "a controller won an epoch",
    "state_written": "a partition's state changed",
    "leader_elected": "another leader, from the ISR",
    "leader_elected_from_elr": "another leader, from the ELR (KIP-966)",
    "leader_elected_unclean": "a leader who was not vouched for",
    "leader_reelected": "the same leader in a new epoch",
    "leader_lost": "nobody is left who can lead",
    "leader_back": "a leader after a time without one",
    "isr_below_min": "the ISR became smaller than min.insync.replicas",
    "isr_of_one": "the leader is left alone",
    "elr_filled": "a member of the ISR went to the ELR",
    "elr_emptied": "the ELR is not needed any more",
    "last_known_elr": "a replica that was complete has lost data",
    "move_begun": "a partition began to move",
    "move_retargeted": "an open move got another end",
    "move_cancelled": "an open move began to turn back",
    "move_finished": "a move came to its end",
    "move_turned_back": "a cancelled one did",
    "move_finished_short": "a move came to its end while an original replica was not in sync",
    "move_led_by_added": "while a partition moved, a replica that was added became its leader",
    "back_while_leaving": "a broker became a replica again before it had deleted what it had",
    "leaver_swept": "a broker has deleted what it had",
}

NAMES: tuple[str, ...] = tuple(dict.fromkeys((*(s.name for s in FROM_LOGS), *FROM_STORE)))
"""Every name that is counted here; the simulator may count more."""


class Coverage:
    """It has the counters of one run, and its alarming log lines."""

    def __init__(self, *, min_isr: int = 2) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: list[LogLine] = []
        """Warnings and worse, in order."""
        self._min_isr = min_isr

    def hit(self, name: str, times: int = 1) -> None:
        """The run has reached a state."""
        self.counts[name] += times

    def missing(self) -> list[str]:
        """Return names that were never reached."""
        return [name for name in NAMES if not self.counts[name]]

    @contextmanager
    def listening(
        self, now: Callable[[], float] = lambda: 0.0, host: Callable[[], str] = lambda: ""
    ) -> Iterator[Coverage]:
        """Hear the product's log lines meanwhile.

        :param now: seconds since the run began.
        :param host: whose code runs at this moment.
        """
        ear = _Ear(self, now, host)
        former: list[tuple[logging.Logger, int]] = []
        for name in (*LOGGERS, "asyncio"):
            logger = logging.getLogger(name)
            former.append((logger, logger.level))
            logger.addHandler(ear)
            if name in LOGGERS:
                logger.setLevel(logging.DEBUG)
        try:
            yield self
        finally:
            for logger, level in former:
                logger.removeHandler(ear)
                logger.setLevel(level)

    # ---- the store

    def controller_elected(self, epoch: int, session: int) -> None:
        """Serve as ``StoreView.on_controller``."""
        self.hit("controller_elected")

    def state_changed(self, change: StateChange) -> None:
        """Serve as ``StoreView.on_change``."""
        before, after = change.before, change.after
        if before is None:
            return
        self.hit("state_written")
        self._moved(before, after)
        if after.leader_epoch > before.leader_epoch:
            self._elected(change)
        if len(before.isr) >= self._min_isr > len(after.isr):
            self.hit("isr_below_min")
        if len(before.isr) > len(after.isr) == 1:
            self.hit("isr_of_one")
        if after.elr and not before.elr:
            self.hit("elr_filled")
        elif before.elr and not after.elr:
            self.hit("elr_emptied")
        if after.last_known_elr and after.last_known_elr != before.last_known_elr:
            self.hit("last_known_elr")

    def _moved(self, before: StoreState, after: StoreState) -> None:
        if set(after.replicas).intersection(before.leaving):
            self.hit("back_while_leaving")
        if set(before.leaving).difference(after.leaving, after.replicas):
            self.hit("leaver_swept")
        if (before.origin, before.target) == (after.origin, after.target):
            added = set(before.target).difference(before.origin)
            if before.leader != after.leader and after.leader in added:
                self.hit("move_led_by_added")
        elif after.origin:
            self.hit("move_retargeted" if before.origin else "move_begun")
            if before.origin and after.origin == after.target:
                self.hit("move_cancelled")
        else:
            self.hit("move_finished")
            if before.origin == before.target:
                self.hit("move_turned_back")
            if not set(before.origin) <= set(before.isr):
                self.hit("move_finished_short")

    def _elected(self, change: StateChange) -> None:
        before, after = change.before, change.after
        assert before is not None
        if after.leader == NO_LEADER:
            self.hit("leader_lost")
            return
        if before.leader == NO_LEADER:
            self.hit("leader_back")
        if after.leader == before.leader:
            self.hit("leader_reelected")
        elif change.unclean:
            self.hit("leader_elected_unclean")
        elif after.leader in before.isr:
            self.hit("leader_elected")
        else:
            self.hit("leader_elected_from_elr")


class _Ear(logging.Handler):
    """It counts what log lines show, and keeps the alarming ones."""

    def __init__(
        self, coverage: Coverage, now: Callable[[], float], host: Callable[[], str]
    ) -> None:
        super().__init__(logging.DEBUG)
        self._coverage = coverage
        self._now = now
        self._host = host
        self._sights: dict[tuple[str, str], list[Sight]] = {}
        for sight in FROM_LOGS:
            self._sights.setdefault((sight.logger, sight.line), []).append(sight)

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        line: Any = record.msg
        fields: Any = record.args
        if isinstance(line, LogEvent):
            line, fields = line["event"], line
        for sight in self._sights.get((record.name, line), ()):
            if sight.when is None or sight.when(fields):
                self._coverage.counts[sight.name] += 1
        if record.levelno >= logging.WARNING:
            alarm = LogLine.from_record(self._host(), record, self._now())
            self._coverage.lines.append(alarm)
