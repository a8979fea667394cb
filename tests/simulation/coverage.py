"""Rare states that runs have reached: 'sometimes' assertions, counted over a campaign.

Three sources feed the counters: log lines of the product, whose wording is stable; what is written
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
from simulation.checkers.no_alarm_in_the_logs import LogLine
from simulation.store_view import StateChange

__all__ = ["FROM_LOGS", "FROM_STORE", "NAMES", "Coverage", "Sight"]

LOGGERS = (
    "oncelog",
    "oncelog_broker",
    "oncelog_controller",
    "oncelog_protocol",
    "oncelog_runtime",
)
"""Those of the product; "asyncio" is listened to beside them, for warnings."""

When = Callable[[tuple[Any, ...]], bool]


class Sight(NamedTuple):
    """A log line that shows a state."""

    name: str
    logger: str
    template: str
    when: When | None = None
    """Whether the line's arguments mean it; None: always."""


def _says(index: int, *texts: str) -> When:
    return lambda args: any(text in str(args[index]) for text in texts)


def _is(index: int, *names: str) -> When:
    return lambda args: type(args[index]).__name__ in names


_CLOCKS = "oncelog_broker.clock_watch"
_PARTITION = "oncelog_broker.replication.partition"
_LEADERSHIP = "oncelog_broker.replication.leadership"
_REPAIR = "oncelog_broker.replication.repair"
_FOLLOWER = "oncelog_broker.replication.follower"
_FETCH_LOOP = "oncelog_broker.replication.fetch_loop"
_MANAGER = "oncelog_broker.replication.replica_manager"
_LOG_DIR = "oncelog_broker.log.log_dir"
_PRODUCERS = "oncelog_broker.log.log_producers"
_RECOVERY = "oncelog_broker.log.recovery"
_ISR = "oncelog_broker.replication.isr_sender"
_MACHINE = "oncelog_controller.machine"
_RUNNER = "oncelog_controller.runner"
_GATEWAY = "oncelog_controller.broker_gateway"
_MEMBERSHIP = "oncelog_controller.membership"
_SENDER = "oncelog.producer.outcomes"
_FETCHER = "oncelog.consumer.fetcher"

_CLEANER = "oncelog_broker.log.cleaner"
_INTERNAL = "oncelog_broker.server.internal_topics"
_ENGINE = "oncelog_broker.coordinator.engine"
_SHARD = "oncelog_broker.coordinator.led_shard"
_ROUNDS = "oncelog_broker.coordinator.group.rounds"
_MEMBERS = "oncelog_broker.coordinator.group.membership"
_GROUPS = "oncelog_broker.coordinator.group.shard"
_TXNS = "oncelog_broker.coordinator.transaction.shard"
_MARKERS = "oncelog_broker.transactions.marker_sender"
_MEMBER = "oncelog.consumer.group.member"

_CUT = "%s: truncated from %d to %d, the leader's epoch %d ends at %d"
_ANSWERS = "%s: leader %d answers %s"
_STOPS = "log directory %s stops: %s"
_RESIGNED = "broker %d is no longer controller of epoch %d: %s"
_BEGINS = "controller epoch %d loads: %s"
_ORDER = "broker %d: order failed: %s"
_RETRIED = "%s: batch will be tried again: %s"
_FETCH = "fetch: %s"
_REPEATS = "%s: producer %d repeats sequence %d, the last but %d"
_COMPACTED = "%s: compacted up to offset %d in %.1f s: %d records and %d bytes went"
_LOADED = "%s: loaded %s in epoch %d, %d records in %.3f s"
_ROUND = "group %s: rebalance of generation %d (%s): %s"
_ASTRAY = (
    "broker %d is registered at %s:%d, but %s: it gets no orders; check advertised_host and "
    "advertised_port of its listener between brokers, or the way there"
)
_CHANGED = "%s: isr %s -> %s, version %d"
_ISR_ANSWER = "%s: isr change answered %s"

FROM_LOGS: tuple[Sight, ...] = (
    # logs and disks
    Sight("torn_tail_cut", _RECOVERY, "%s: truncating %d unsynced bytes at offset %d: %s"),
    Sight("unsynced_segment_removed", _RECOVERY, "%s: removing the unsynced segment %d"),
    Sight(
        "clock_leapt",
        _CLOCKS,
        "the wall clock of broker %d is %.0f s ahead of the checked time: it is not believed until "
        "most brokers agree, and nothing expires by it",
    ),
    Sight("log_damaged", _RECOVERY, "%s is damaged: %s"),
    Sight("rot_found", _REPAIR, "%s is damaged: %s"),
    Sight("damaged_log_refetched", _REPAIR, "%s: the damaged log has been fetched again"),
    Sight("directory_offline", _LOG_DIR, _STOPS),
    Sight("failed_sync", _LOG_DIR, _STOPS, lambda args: str(args[1]).startswith("sync:")),
    Sight("hung_sync", _LOG_DIR, _STOPS, lambda args: str(args[1]).startswith("sync: no sync")),
    Sight("failed_append", _LOG_DIR, _STOPS, lambda args: str(args[1]).startswith("append ")),
    Sight("disk_full", _LOG_DIR, "%s is full: writes are refused until there is room"),
    Sight("disk_has_room_again", _LOG_DIR, "%s has room again"),
    Sight(
        "index_rebuilt",
        "oncelog_broker.log.segment",
        "index of %s does not hold: rebuilding it",
    ),
    # followers
    Sight("diverging_truncation", _PARTITION, _CUT, lambda args: args[1] > args[2]),
    Sight("divergence_without_cut", _PARTITION, _CUT, lambda args: args[1] == args[2]),
    Sight("log_begun_anew", _PARTITION, "%s: dropped [%d, %d) to begin again at %d"),
    Sight(
        "follower_lost_committed",
        _LEADERSHIP,
        "%s: broker %d has lost committed records (at %d, high watermark %d)",
    ),
    Sight("follower_lags", _LEADERSHIP, "%s: brokers %s lag, high watermark %d, log end %d"),
    Sight("fenced_leader_epoch", _FOLLOWER, _ANSWERS, _says(2, "FENCED_LEADER_EPOCH")),
    Sight("unknown_leader_epoch", _FOLLOWER, _ANSWERS, _says(2, "UNKNOWN_LEADER_EPOCH")),
    Sight("not_leader_or_follower", _FOLLOWER, _ANSWERS, _says(2, "NOT_LEADER_OR_FOLLOWER")),
    Sight("leader_storage_error", _FOLLOWER, _ANSWERS, _says(2, "STORAGE_ERROR")),
    Sight("stale_fetch_refused", _FOLLOWER, _ANSWERS, _says(2, "STALE_BROKER_EPOCH")),
    Sight("follower_cannot_write", _FOLLOWER, "%s: cannot follow: %s"),
    Sight("leader_unreachable", _FETCH_LOOP, "cannot fetch from broker %d: %s"),
    Sight("leader_silent", _FETCH_LOOP, "broker %d: silent for %.1f s"),
    Sight("role_change_failed", _PARTITION, "%s: could not change its role: %s"),
    # the ISR
    Sight("isr_shrunk", _LEADERSHIP, _CHANGED, lambda args: len(args[1]) > len(args[2])),
    Sight("isr_expanded", _LEADERSHIP, _CHANGED, lambda args: len(args[1]) < len(args[2])),
    Sight("alter_partition_unanswered", _ISR, "isr changes for %d partitions: outcome unknown: %r"),
    Sight("alter_partition_all_refused", _ISR, "isr changes for %d partitions refused: %s"),
    Sight("alter_partition_refused", _ISR, _ISR_ANSWER, _says(1, "INELIGIBLE_REPLICA")),
    Sight("alter_partition_superseded", _ISR, _ISR_ANSWER, _says(1, "UPDATE_VERSION")),
    Sight("alter_partition_fenced", _ISR, _ISR_ANSWER, _says(1, "FENCED_LEADER_EPOCH")),
    # the controller
    Sight("led_astray", "oncelog_controller.link", _ASTRAY),
    Sight(
        "broker_suspected",
        _MACHINE,
        "broker %d refuses connections: suspected, %d partitions change",
    ),
    Sight("false_suspicion_cleared", _MACHINE, "broker %d answers again: cleared"),
    Sight(
        "accusation_refuted",
        "oncelog_controller.accusations",
        "broker %d lives: it objected to brokers %s, which cannot connect to it",
    ),
    Sight(
        "controller_disbelieved",
        "oncelog_broker.server.controller_fence",
        "an order of broker %d as controller of epoch %d is refused: the store has broker %d,"
        " epoch %d",
    ),
    Sight(
        "controller_sat_out",
        _RUNNER,
        "broker %d does not run for controller for %.0f s: others took it for dead, or cannot"
        " reach it",
    ),
    Sight("replicas_failed", _MACHINE, "broker %d: %d replicas failed"),
    Sight(
        "directory_failure_reported",
        "oncelog_controller.term",
        "brokers %s report failed log directories",
    ),
    Sight("controller_reloads", "oncelog_controller.term", _BEGINS, lambda a: a[1] != "elected"),
    Sight("write_outcome_unknown", "oncelog_controller.term", _BEGINS, _says(1, "Disconnected")),
    Sight(
        "controller_deposed",
        "oncelog_controller.campaign",
        "controller %d of epoch %d was deposed",
    ),
    Sight("controller_session_expired", _RUNNER, _RESIGNED, _says(2, "expired")),
    Sight("zombie_controller_fenced", _RUNNER, _RESIGNED, _says(2, "fenced", "newer controller")),
    Sight(
        "controller_succeeded",
        _RUNNER,
        _RESIGNED,
        _says(2, "is controller of epoch", "/controller"),
    ),
    Sight(
        "controller_of_former_life", _RUNNER, "/controller is from an earlier life of this broker"
    ),
    Sight("orders_void", _GATEWAY, "broker %d has restarted: its orders are void"),
    Sight("order_before_registration", _GATEWAY, _ORDER, _says(1, "BROKER_NOT_AVAILABLE")),
    Sight(
        "preferred_leaders_restored",
        "oncelog_controller.leadership",
        "%d leaderships go back to their preferred replicas",
    ),
    Sight(
        "controlled_shutdown",
        "oncelog_controller.leadership",
        "broker %d shuts down: %d partitions change",
    ),
    Sight(
        "controlled_shutdown_stuck",
        "oncelog_broker.app",
        "controlled shutdown: %d leaderships could not be moved",
    ),
    # sessions
    Sight("session_expired", _MEMBERSHIP, "broker %d: the session expired"),
    Sight("registered_again", _MEMBERSHIP, "broker %d registers again"),
    Sight(
        "former_registration_removed",
        _MEMBERSHIP,
        "removing the registration of an earlier life of this broker",
    ),
    # requests
    Sight(
        "long_poll_expired",
        "oncelog_broker.replication.consumer_fetch",
        "a fetch has waited its time",
    ),
    Sight(
        "acks_timed_out",
        "oncelog_broker.server.handlers.produce",
        "a produce has waited its time, %d partitions are not held",
    ),
    Sight("duplicate_answered", _PRODUCERS, _REPEATS),
    Sight("duplicate_of_the_fifth_last", _PRODUCERS, _REPEATS, lambda args: args[3] == 4),
    Sight("producers_read_after_a_cut", _PRODUCERS, "%s: reading what %d producers wrote"),
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
        "%s to the controller again: %s",
    ),
    Sight("consumer_truncated", _FETCHER, "%s: the log was truncated to %d, below %d"),
    Sight("consumer_out_of_range", _FETCHER, "%s: offset %d is out of range, reset to %s"),
    Sight("consumer_fetch_failed", _FETCHER, _FETCH),
    # compaction
    Sight("log_compacted", _CLEANER, _COMPACTED),
    Sight("records_compacted", _CLEANER, _COMPACTED, lambda args: args[3] > 0),
    Sight("compaction_disturbed", _CLEANER, "%s: changed while it was compacted"),
    Sight("swap_finished_at_start", _RECOVERY, "%s: removing segment %d, which was compacted"),
    # coordinators
    Sight("internal_topic_made", _INTERNAL, "internal topic %s is there"),
    Sight("coordinator_loaded", _ENGINE, _LOADED),
    Sight("coordinator_loaded_records", _ENGINE, _LOADED, lambda args: args[3] > 0),
    Sight("coordinator_given_up", _ENGINE, "%s: gives up %r"),
    Sight("coordinator_load_failed", _ENGINE, "%s: loading %s: %s"),
    Sight("coordinator_append_refused", _SHARD, "%s: an append was refused: %s"),
    Sight(
        "coordinator_commit_late",
        _SHARD,
        "%s: %d answers have waited for offset %d for too long, it is not committed yet",
    ),
    # groups
    Sight("rebalance_of_stable", _ROUNDS, _ROUND, _says(2, "Stable")),
    Sight("rebalance_interrupted", _ROUNDS, _ROUND, _says(2, "CompletingRebalance")),
    Sight("member_died", _ROUNDS, _ROUND, _says(3, "no sign of life")),
    Sight("member_joined", _ROUNDS, _ROUND, _says(3, " joins")),
    Sight("member_left", _ROUNDS, _ROUND, _says(3, " left")),
    Sight("member_missed_round", _ROUNDS, "group %s: %s did not join"),
    Sight("group_emptied", _ROUNDS, "group %s: empty, generation %d"),
    Sight("static_member_back", _MEMBERS, "group %s: %s takes over from %s"),
    Sight("offsets_expired", _GROUPS, "partition %d: %d old facts go"),
    Sight("partitions_lost", _MEMBER, "group %s: lost %d partitions: %s"),
    Sight("poll_too_late", _MEMBER, "%s"),
    Sight(
        "coordinator_moved",
        "oncelog.consumer.group.coordinator",
        "group %s: broker %d does not coordinate it now (%s), looking for who does",
    ),
    # transactions
    Sight("txn_timed_out", _TXNS, "the time of transaction %r is over"),
    Sight("transactional_ids_expired", _TXNS, "partition %d: %d idle transactional ids go"),
    Sight("markers_unanswered", _MARKERS, "%d markers to broker %d again: %r"),
    Sight("marker_sent_again", _MARKERS, "%s: no marker yet, error %d"),
    Sight(
        "marker_of_former_coordinator",
        _MARKERS,
        "%s: another coordinator ends the transaction of %r, this one is at epoch %d",
    ),
    Sight(
        "marker_refused",
        "oncelog_broker.transactions.marker_writer",
        "%s: a marker was refused: %s",
    ),
    Sight(
        "verification_unanswered",
        "oncelog_broker.transactions.txn_verification",
        "broker %d verifies no transactions: %r",
    ),
    Sight(
        "txn_batch_refused",
        "oncelog_broker.transactions.verified_appends",
        "%s: producer %d may not write: %r",
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
        "%s does not hold: reading its segment",
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
}

NAMES: tuple[str, ...] = tuple(dict.fromkeys((*(s.name for s in FROM_LOGS), *FROM_STORE)))
"""Every name that is counted here; the simulator may count more."""


class Coverage:
    """The counters of one run, and its alarming log lines."""

    def __init__(self, *, min_isr: int = 2) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: list[LogLine] = []
        """Warnings and worse, in order."""
        self._min_isr = min_isr

    def hit(self, name: str, times: int = 1) -> None:
        """The run has reached a state."""
        self.counts[name] += times

    def missing(self) -> list[str]:
        """Names that were never reached."""
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
        """For ``StoreView.on_controller``."""
        self.hit("controller_elected")

    def state_changed(self, change: StateChange) -> None:
        """For ``StoreView.on_change``."""
        before, after = change.before, change.after
        if before is None:
            return
        self.hit("state_written")
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
    """Counts what log lines show, and keeps the alarming ones."""

    def __init__(
        self, coverage: Coverage, now: Callable[[], float], host: Callable[[], str]
    ) -> None:
        super().__init__(logging.DEBUG)
        self._coverage = coverage
        self._now = now
        self._host = host
        self._sights: dict[tuple[str, str], list[Sight]] = {}
        for sight in FROM_LOGS:
            self._sights.setdefault((sight.logger, sight.template), []).append(sight)

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        for sight in self._sights.get((record.name, record.msg), ()):
            args = record.args if isinstance(record.args, tuple) else (record.args,)
            if sight.when is None or sight.when(args):
                self._coverage.counts[sight.name] += 1
        if record.levelno >= logging.WARNING:
            line = LogLine.from_record(self._host(), record, self._now())
            self._coverage.lines.append(line)
