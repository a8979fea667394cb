"""These log lines are those of the transactions room: names, texts, fields.

See ``oncelog_runtime.logs``.
"""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

# ---- marker_sender
MARKER_NOT_NEEDED = Event("marker_not_needed", "%s is no more, and needs no marker", "partition")
MARKER_PARTITION_UNKNOWN = Event(
    "marker_partition_unknown",
    "%s has to have a marker and is not known here; whether it was deleted is not known: %r",
    "partition error",
)
MARKERS_SENT_AGAIN = Event(
    "markers_sent_again", "%d markers to broker %d again: %r", "markers broker_id error"
)
MARKERS_REFUSED = Event("markers_refused", "markers to broker %d: error %d", "broker_id error_code")
MARKER_OF_OLDER_COORDINATOR_REFUSED = Event(
    "marker_of_older_coordinator_refused",
    "%s: another coordinator ends the transaction of %r, this one is at epoch %d",
    "partition transactional_id coordinator_epoch",
)
MARKER_DELAYED = Event("marker_delayed", "%s: no marker yet, error %d", "partition error_code")

# ---- marker_writer
MARKER_REFUSED = Event("marker_refused", "%s: a marker was refused: %s", "partition error")
MARKER_APPEND_FAILED = Event(
    "marker_append_failed", "%s: a marker could not be appended: %s", "partition error"
)

# ---- txn_verification
TRANSACTION_VERIFICATION_REFUSED = Event(
    "transaction_verification_refused", "broker %d: no answer, error %d", "broker_id error_code"
)
TRANSACTION_VERIFICATION_FAILED = Event(
    "transaction_verification_failed", "broker %d verifies no transactions: %r", "broker_id error"
)

# ---- verified_appends
TRANSACTION_BATCH_FAILED = Event(
    "transaction_batch_failed", "%s: a batch of a transaction failed", "partition"
)
TRANSACTION_BATCH_REFUSED = Event(
    "transaction_batch_refused", "%s: producer %d may not write: %r", "partition producer_id error"
)
