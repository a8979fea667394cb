"""These log lines are those of replication: names, texts, fields (see ``oncelog_runtime.logs``)."""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

# ---- consumer_fetch
FETCH_WAITED = Event("fetch_waited", "a fetch has waited its time")

# ---- partition, when a log is truncated
COMMITTED_RECORDS_TRUNCATED = Event(
    "committed_records_truncated", "%s: %d committed records were truncated", "partition records"
)
FOLLOWER_TRUNCATED = Event(
    "follower_truncated",
    "%s: truncated from %d to %d, the leader's epoch %d ends at %d",
    "partition before after leader_epoch end_offset",
)
FOLLOWER_BEGAN_ANEW = Event(
    "follower_began_anew",
    "%s: dropped [%d, %d) to begin again at %d",
    "partition log_start_offset log_end_offset offset",
)

# ---- fetch_loop
FETCH_NO_CONNECTION = Event(
    "fetch_no_connection", "cannot fetch from broker %d: %s", "broker_id error"
)
FETCH_BEGAN = Event("fetch_began", "fetching from broker %d", "broker_id")
FETCH_SILENT = Event("fetch_silent", "broker %d: silent for %.1f s", "broker_id seconds")
FETCH_NOT_ASKED = Event("fetch_not_asked", "cannot ask broker %d", "broker_id")
FETCH_REFUSED = Event(
    "fetch_refused", "broker %d refuses to be fetched from: %s", "broker_id error"
)
FETCH_ANSWER_FAILED = Event(
    "fetch_answer_failed", "an answer of broker %d could not be handled", "broker_id"
)

# ---- follower
FOLLOWER_DATA_REFUSED = Event(
    "follower_data_refused", "%s: cannot use what the leader sent: %s", "partition error"
)
FOLLOWER_AWAY_TOO_LONG = Event(
    "follower_away_too_long", "%s: was away for longer than tombstones are kept", "partition"
)
FOLLOWER_REFUSED = Event(
    "follower_refused", "%s: leader %d answers %s", "partition broker_id error"
)
FOLLOWER_CANNOT_WRITE = Event("follower_cannot_write", "%s: cannot follow: %s", "partition error")
FOLLOWER_STOPPED = Event("follower_stopped", "%s: stopped following: %s", "partition error")

# ---- leadership
FOLLOWERS_LAG = Event(
    "followers_lag",
    "%s: brokers %s lag, high watermark %d, log end %d",
    "partition followers high_watermark log_end_offset",
)
FOLLOWER_LOST_RECORDS = Event(
    "follower_lost_records",
    "%s: broker %d has lost committed records (at %d, high watermark %d)",
    "partition broker_id offset high_watermark",
)
ISR_CHANGED = Event(
    "isr_changed", "%s: isr %s -> %s, version %d", "partition before after partition_epoch"
)

# ---- isr_sender
ISR_CHANGE_UNCERTAIN = Event(
    "isr_change_uncertain", "isr changes for %d partitions: outcome unknown: %r", "partitions error"
)
ISR_CHANGES_REFUSED = Event(
    "isr_changes_refused", "isr changes for %d partitions refused: %s", "partitions error"
)
ISR_CHANGE_ANSWERED = Event("isr_change_answered", "%s: isr change answered %s", "partition error")

# ---- partition
ROLE_NOT_CHANGED = Event("role_not_changed", "%s: could not change its role: %s", "partition error")
ROLE_OF_OLDER_EPOCH = Event(
    "role_of_older_epoch", "%s: ordered back into an older epoch: %s", "partition error"
)
LEADER_BEGAN = Event(
    "leader_began",
    "%s: leads in epoch %d from offset %d, isr %s",
    "partition leader_epoch offset isr",
)
FOLLOWER_BEGAN = Event(
    "follower_began", "%s: follows broker %d in epoch %d", "partition leader leader_epoch"
)
REPLICA_INVARIANT_BROKEN = Event(
    "replica_invariant_broken", "%r contradicts itself and goes out of service: %s", "replica error"
)

# ---- repair
REPLICA_DAMAGED = Event("replica_damaged", "%s is damaged: %s", "path error")
REPLICA_NOT_WHOLE = Event(
    "replica_not_whole", "%s: no member before it is whole again", "partition"
)
REPLICA_WHOLE_AGAIN = Event(
    "replica_whole_again", "%s: the damaged log has been fetched again", "partition"
)

# ---- replica_manager
REPLICA_WITHOUT_LOG = Event("replica_without_log", "%s: no log: %s", "partition error")
OLD_LOG_REMOVED = Event(
    "old_log_removed", "%s: removing the log of an earlier topic: %s", "partition error"
)
ROLE_CALLBACK_FAILED = Event("role_callback_failed", "%s: telling of its role failed", "partition")
REPLICA_NOT_DELETED = Event(
    "replica_not_deleted", "%s: could not be deleted: %s", "partition error"
)
REPLICA_NOT_OURS = Event("replica_not_ours", "%s: not ours any more, stopped", "partition")
REPLICA_STRAY = Event("replica_stray", "%s: stray, in %s", "partition path")
REPLICA_UNKNOWN = Event(
    "replica_unknown", "%s: no replica of topic id %s here", "partition topic_id"
)
TOPIC_SETTINGS_IGNORED = Event(
    "topic_settings_ignored", "topic %s: its settings are ignored: %s", "topic error"
)
LAG_CHECK_FAILED = Event("lag_check_failed", "%s: lag check failed", "partition")
