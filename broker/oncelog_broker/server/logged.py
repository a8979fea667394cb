"""These log lines are those of the server: names, texts, fields (see ``oncelog_runtime.logs``)."""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

# ---- connection
ANSWER_FAILED = Event("answer_failed", "cannot answer %s: %s", "peer error")
CLOSE_CALLBACK_FAILED = Event("close_callback_failed", "a close callback of %s failed", "peer")
CONNECTION_LOST = Event(
    "connection_lost", "%s: connection of %s closed: %s", "listener peer reason"
)
CONNECTION_CLOSED = Event(
    "connection_closed", "%s: closing the connection of %s: %s", "listener peer reason"
)

# ---- controller_channel
CONTROLLER_ASKED_AGAIN = Event(
    "controller_asked_again", "%s to the controller again: %s", "request reason"
)

# ---- controller_fence
CONTROLLER_DISBELIEVED = Event(
    "controller_disbelieved",
    "an order of broker %d as controller of epoch %d is refused: the store has broker %d, epoch %d",
    "controller_id controller_epoch elected_id elected_epoch",
)
CONTROLLER_CHANGED = Event(
    "controller_changed",
    "broker %d is controller at epoch %d (was epoch %d)",
    "controller controller_epoch before",
)

# ---- end_offsets
END_OFFSETS_BUSY = Event(
    "end_offsets_busy", "end offsets: %d questions are out, this one gave up", "limit"
)
END_OFFSETS_UNKNOWN = Event(
    "end_offsets_unknown", "end offsets of broker %d are not known: %r", "broker_id error"
)

# ---- abort_transaction
TRANSACTION_ABORTED_BY_HAND = Event(
    "transaction_aborted_by_hand",
    "%s-%d: the transaction of producer %d in epoch %d is aborted by hand, for %s",
    "topic partition producer_id producer_epoch principal",
)

# ---- produce
PRODUCE_WAITED = Event(
    "produce_waited", "a produce has waited its time, %d partitions are not held", "partitions"
)
PRODUCE_APPEND_FAILED = Event("produce_append_failed", "%s: append failed: %s", "partition error")

# ---- internal_topics
INTERNAL_TOPIC_WAITS = Event(
    "internal_topic_waits",
    "internal topic %s cannot be made yet: it is to have %d replicas (%s), and %d brokers are up",
    "topic replicas setting brokers",
)
INTERNAL_TOPIC_REFUSED = Event(
    "internal_topic_refused", "making %s failed: error %d", "topic error_code"
)
INTERNAL_TOPIC_READY = Event("internal_topic_ready", "internal topic %s is there", "topic")
INTERNAL_TOPIC_FAILED = Event("internal_topic_failed", "making %s failed: %r", "topic error")

ADDRESS_LEADS_ASTRAY = Event(
    "address_leads_astray",
    "broker %d is registered at %s:%d, but %s: check advertised_host and advertised_port of its "
    "listener between brokers, or the way there",
    "broker_id host port error",
)

# ---- listener
LISTENER_ACCEPTS = Event("listener_accepts", "listener %s accepts on %s:%d", "listener host port")
CONNECTION_REFUSED = Event(
    "connection_refused",
    "listener %s: connection of %s %s: %s%s",
    "listener peer what reason remark",
)

# ---- partition_gateway
RECORDS_WITHOUT_KEYS = Event(
    "records_without_keys", "records without keys at offset %d are passed over", "offset"
)

# ---- producer_ids
PRODUCER_IDS_FAILED = Event("producer_ids_failed", "no block of producer ids: %r", "error")
PRODUCER_IDS_REFUSED = Event(
    "producer_ids_refused", "no block of producer ids: error %d", "error_code"
)

# ---- router
REQUEST_FAILED_AFTER_ANSWER = Event(
    "request_failed_after_answer", "%s failed after it was answered", "request"
)
REQUEST_FAILED = Event("request_failed", "%s failed: %r", "request error")
REQUEST_AT_STOP = Event("request_at_stop", "%s is not carried out: the broker stops", "request")
REQUEST_NOT_SPOKEN = Event(
    "request_not_spoken", "API %d v%d is not spoken here", "api_key api_version"
)

# ---- topic_creation
TOPIC_AUTO_CREATION_REFUSED = Event(
    "topic_auto_creation_refused", "auto-creation of topic %s failed: error %d", "topic error_code"
)
TOPIC_AUTO_CREATED = Event(
    "topic_auto_created", "topic %s was created because a client asked about it", "topic"
)
TOPIC_AUTO_CREATION_FAILED = Event(
    "topic_auto_creation_failed", "auto-creation of topic %s failed: %r", "topic error"
)

# ---- giving_way
LEADER_WITHOUT_ROOM = Event(
    "leader_without_room",
    "%s: the disk here is full, broker %d has room: it is to lead",
    "partition successor",
)
LEADER_STALLS = Event(
    "leader_stalls",
    "%s: the disk here has not answered for %.1f s, broker %d holds everything: it is to lead",
    "partition seconds successor",
)
ROOM_NOT_KNOWN = Event("room_not_known", "broker %d did not say what room it has: %s", "peer error")
