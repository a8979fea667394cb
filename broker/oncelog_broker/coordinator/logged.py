"""The coordinators write these log lines: names, texts, fields (see ``oncelog_runtime.logs``)."""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

# ---- engine
COORDINATOR_TOPIC_GREW = Event(
    "coordinator_topic_grew",
    "%s: %s had %s partitions and now has %s: keys move to other "
    "coordinators, which do not know them",
    "coordinator topic before after",
)
COORDINATOR_RESIGNED = Event("coordinator_resigned", "%s: gives up %r", "coordinator shard")
COORDINATOR_LOAD_DELAYED = Event(
    "coordinator_load_delayed", "%s: loading %s: %s", "coordinator partition error"
)
COORDINATOR_LOAD_FAILED = Event(
    "coordinator_load_failed", "%s: loading %s failed", "coordinator partition"
)
COORDINATOR_LOADED = Event(
    "coordinator_loaded",
    "%s: loaded %s in epoch %d, %d records in %.3f s",
    "coordinator partition leader_epoch records seconds",
)

# ---- membership
GROUP_MEMBER_REPLACED = Event(
    "group_member_replaced", "group %s: %s takes over from %s", "group member before"
)
GROUP_LEADER_GAVE_NOTHING = Event(
    "group_leader_gave_nothing", "group %s: the leader gives nothing to %d", "group members"
)
GROUP_MEMBER_LEFT = Event("group_member_left", "group %s: %s leaves: %s", "group member reason")

# ---- rounds
GROUP_REBALANCE = Event(
    "group_rebalance",
    "group %s: rebalance of generation %d (%s): %s",
    "group generation state reason",
)
GROUP_MEMBER_DID_NOT_JOIN = Event(
    "group_member_did_not_join", "group %s: %s did not join", "group member"
)
GROUP_GENERATION_BEGAN = Event(
    "group_generation_began",
    "group %s: generation %d has %d members, protocol %s, leader %s",
    "group generation members protocol leader",
)
GROUP_EMPTY = Event("group_empty", "group %s: empty, generation %d", "group generation")

# ---- shard
GROUP_RECORD_UNREADABLE = Event(
    "group_record_unreadable", "partition %d: a record of groups cannot be read: %s", "shard error"
)
GROUP_RECORD_OF_NEWER_RELEASE = Event(
    "group_record_of_newer_release", "a record of a newer release is left alone: %r", "key"
)
GROUP_INVARIANT_BROKEN = Event("group_invariant_broken", "partition %d: %s", "shard error")
GROUP_OFFSETS_EXPIRED = Event(
    "group_offsets_expired", "partition %d: %d old facts go", "shard count"
)

# ---- led_shard
COORDINATOR_STEP_FAILED = Event(
    "coordinator_step_failed", "%s: a step of the coordinator failed", "partition"
)
COORDINATOR_OPERATION_FAILED = Event(
    "coordinator_operation_failed", "%s: an operation failed: %r", "partition error"
)
COORDINATOR_APPEND_REFUSED = Event(
    "coordinator_append_refused", "%s: an append was refused: %s", "partition error"
)
COORDINATOR_APPEND_FAILED = Event("coordinator_append_failed", "%s: an append failed", "partition")
COORDINATOR_REPLAY_FAILED = Event("coordinator_replay_failed", "%s: replay failed", "partition")
COORDINATOR_ANSWERS_LATE = Event(
    "coordinator_answers_late",
    "%s: %d answers have waited for offset %d for too long, it is not committed yet",
    "partition answers offset",
)

# ---- producer_ids
TRANSACTION_PRODUCER_ID_MISSING = Event(
    "transaction_producer_id_missing", "no producer id: %s", "error"
)

# ---- shard
TRANSACTION_RECORD_UNREADABLE = Event(
    "transaction_record_unreadable",
    "partition %d: a record of transactions cannot be read: %s",
    "shard error",
)
TRANSACTION_RECORD_OF_NEWER_RELEASE = Event(
    "transaction_record_of_newer_release", "a record of a newer release is left alone: %r", "key"
)
TRANSACTION_TIMED_OUT = Event(
    "transaction_timed_out", "the time of transaction %r is over", "transactional_id"
)
TRANSACTIONAL_IDS_EXPIRED = Event(
    "transactional_ids_expired", "partition %d: %d idle transactional ids go", "shard count"
)
