"""Logs and their directories write these lines: names, texts, fields.

See ``oncelog_runtime.logs``.
"""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

# ---- aborted_transactions
ABORTED_INDEX_NOT_WRITTEN = Event("aborted_index_not_written", "%s not written: %s", "path error")
ABORTED_INDEX_REBUILT = Event(
    "aborted_index_rebuilt", "%s does not hold: reading its segment", "path"
)

# ---- cleaner
COMPACTION_FAILED = Event("compaction_failed", "compaction failed; it goes on after a while")
COMPACTION_OVERTAKEN = Event(
    "compaction_overtaken", "%s: changed while it was compacted", "partition"
)
COMPACTION_REFUSED = Event("compaction_refused", "%s cannot be compacted: %s", "partition error")
LOG_COMPACTED = Event(
    "log_compacted",
    "%s: compacted up to offset %d in %.1f s: %d records and %d bytes went",
    "partition offset seconds records bytes",
)
COMPACTION_NOT_WRITTEN = Event("compaction_not_written", "%s: not compacted: %s", "partition error")
COMPACTION_ROLL_FAILED = Event(
    "compaction_roll_failed", "%s: its active segment is not rolled: %s", "partition error"
)

# ---- continuity
CLAIM_TOO_LONG = Event(
    "claim_too_long",
    "a log directory was lost, and %d partitions in others have no room in the registration: they"
    " count as lost, too",
    "partitions",
)
DATA_MAY_BE_MISSING = Event(
    "data_may_be_missing", "data may be missing that the last life of this broker had: %s", "what"
)
LOG_FELL_SHORT = Event(
    "log_fell_short",
    "%s ends at offset %d, and offsets up to %d were committed: something is missing",
    "directory end_offset high_watermark",
)
CONTINUITY_NOT_WRITTEN = Event(
    "continuity_not_written", "%s: %s not written: %s", "log_dir file error"
)

# ---- flusher
SYNC_CALLBACK_FAILED = Event("sync_callback_failed", "a callback after a sync failed")

# ---- slices
SLICE_FAILED = Event("slice_failed", "a piece of a longer work failed")

# ---- log_dir
CLEAN_SHUTDOWN_UNREADABLE = Event(
    "clean_shutdown_unreadable", "%s: %s; treating the last stop as unclean", "path error"
)
CONTINUITY_UNREADABLE = Event(
    "continuity_unreadable", "%s: %s; some data may be missing", "path error"
)
CHECKPOINT_UNREADABLE = Event(
    "checkpoint_unreadable", "%s is bad and will be made anew: %s", "path error"
)
LOG_DIR_HAS_ROOM = Event("log_dir_has_room", "%s has room again", "log_dir")
LOG_DIR_FULL = Event(
    "log_dir_full", "%s is full: writes are refused until there is room", "log_dir"
)
LOG_DIR_OFFLINE = Event("log_dir_offline", "log directory %s stops: %s", "log_dir error")
APPEND_CALLBACK_FAILED = Event("append_callback_failed", "a callback after an append failed")
CHECKPOINTS_NOT_WRITTEN = Event(
    "checkpoints_not_written", "%s: checkpoints not written: %s", "log_dir error"
)
FILE_NOT_REMOVED = Event("file_not_removed", "%s not removed: %s", "path error")

# ---- log_manager
LOG_DAMAGED = Event("log_damaged", "%s is damaged: %s", "path error")
LOG_DIR_STOP_FAILED = Event("log_dir_stop_failed", "stopping %s failed", "log_dir")
RETENTION_REFUSED = Event("retention_refused", "retention: %s", "error")
RETENTION_FAILED = Event("retention_failed", "retention failed; it runs again at the next interval")

# ---- log_producers
PRODUCER_REPEATS = Event(
    "producer_repeats",
    "%s: producer %d repeats sequence %d, the last but %d",
    "partition producer_id sequence batches_since",
)
PRODUCERS_TOO_MANY = Event(
    "producers_too_many",
    "%s remembers %d producers, no more are let in until some are forgotten",
    "partition producers",
)
LOG_MARKER_UNREADABLE = Event(
    "log_marker_unreadable", "%s: a marker is not understood: %s", "partition error"
)
PRODUCERS_READ_AGAIN = Event(
    "producers_read_again", "%s: reading what %d producers wrote", "partition producers"
)
PRODUCERS_NOT_READ = Event(
    "producers_not_read", "%s: what producers wrote cannot be read: %s", "partition error"
)

# ---- partition_log
LOG_TRUNCATED = Event("log_truncated", "%s: truncating from %d to %d", "partition before offset")
LOG_BEGUN_ANEW = Event("log_begun_anew", "%s: starting anew at offset %d", "partition offset")

# ---- producer_snapshots
PRODUCER_SNAPSHOT_NOT_WRITTEN = Event(
    "producer_snapshot_not_written", "%s: not written: %s", "path error"
)
PRODUCER_SNAPSHOT_UNUSABLE = Event("producer_snapshot_unusable", "%s is not used: %s", "path error")
ABORTED_INDEX_UNREADABLE = Event(
    "aborted_index_unreadable", "the aborted transactions of a segment cannot be read: %s", "error"
)
SEGMENT_MARKER_UNREADABLE = Event(
    "segment_marker_unreadable", "%s: a marker is not understood: %s", "path error"
)

# ---- producer_state
MARKER_OF_OLDER_COORDINATOR = Event(
    "marker_of_older_coordinator", "producer %d: %s of an older coordinator", "producer_id marker"
)

# ---- recovery
COMPACTED_SEGMENT_REMOVED = Event(
    "compacted_segment_removed", "%s: removing segment %d, which was compacted", "path base_offset"
)
UNSYNCED_TAIL_TRUNCATED = Event(
    "unsynced_tail_truncated",
    "%s: truncating %d unsynced bytes at offset %d: %s",
    "path bytes offset reason",
)
UNSYNCED_SEGMENT_REMOVED = Event(
    "unsynced_segment_removed", "%s: removing the unsynced segment %d", "path base_offset"
)
TOPIC_ID_UNKNOWN = Event("topic_id_unknown", "%s: topic id unknown: %s", "path error")
TRUNCATION_MARK_UNREADABLE = Event(
    "truncation_mark_unreadable", "%s: the mark of a truncation cannot be read: %s", "path error"
)
LEADER_EPOCHS_REBUILT = Event(
    "leader_epochs_rebuilt", "%s: rebuilding leader epochs: %s", "path error"
)

# ---- retention
LOG_RETENTION_DELETED = Event(
    "log_retention_deleted", "%s: deleted %d bytes below offset %d", "partition bytes offset"
)

# ---- scrubber
SCRUB_FAILED = Event("scrub_failed", "%s could not be scrubbed: %s", "path error")

# ---- segment
SEGMENT_INDEX_NOT_WRITTEN = Event(
    "segment_index_not_written", "index of %s not written: %s", "path error"
)
SEGMENT_INDEX_REBUILT = Event(
    "segment_index_rebuilt", "index of %s does not hold: rebuilding it", "path"
)
SEGMENT_DAMAGED = Event("segment_damaged", "%s does not hold at byte %d: %s", "path position error")
SEGMENT_CONTRADICTS_INDEX = Event(
    "segment_contradicts_index", "%s is not what its index says", "path"
)
SEGMENT_INDEX_LOST = Event("segment_index_lost", "index of %s lost: %s", "path error")
