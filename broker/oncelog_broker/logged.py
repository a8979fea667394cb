"""These log lines are those of the broker as a whole: names, texts, fields.

See ``oncelog_runtime.logs``.
"""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

# ---- the process
SETTINGS = Event("settings", "settings that are not defaults: %s", "settings")
VARIABLE_IGNORED = Event("variable_ignored", "%s is set, and is no setting of a broker", "variable")
ZOOKEEPER_UNREACHABLE = Event(
    "zookeeper_unreachable", "no contact with ZooKeeper at %s: %s", "address error"
)
START_FAILED = Event("start_failed", "the broker cannot start: %s", "error")
STOP_REQUESTED = Event("stop_requested", "%s: stopping", "signal")
FILE_LIMIT_NOT_RAISED = Event(
    "file_limit_not_raised", "the limit of open files stays at %d: %s", "limit error"
)

LOOP_HELD = Event(
    "loop_held",
    "one turn kept everything else waiting for %d ms, %d ms of it CPU time: %s",
    "held_ms cpu_ms ran",
)

# ---- live_config, controller_settings
SETTING_CHANGED = Event("setting_changed", "%s was %s and is now %s", "key before value")
SETTING_LEFT_OUT = Event(
    "setting_left_out", "what is set while brokers run cannot hold here: %s", "error"
)

# ---- clock_watch
CLOCK_LEAPT = Event(
    "clock_leapt",
    "the wall clock of broker %d is %.0f s ahead of the checked time: it is not believed until "
    "most brokers agree, and nothing expires by it",
    "broker_id ahead_s",
)

# ---- app
BROKER_SERVES = Event(
    "broker_serves",
    "broker %d serves cluster %s, broker epoch %d",
    "broker_id cluster_id broker_epoch",
)
BROKER_REGISTERED = Event(
    "broker_registered", "broker %d is registered, epoch %d", "broker_id broker_epoch"
)
SESSION_NOT_REMEMBERED = Event(
    "session_not_remembered", "the session could not be remembered: %s", "error"
)
BROKER_FAILED = Event("broker_failed", "broker %d fails: %r", "broker_id error")
BROKER_STOPPED = Event("broker_stopped", "broker %d stopped, cleanly: %s", "broker_id clean")
STOP_STEP_LATE = Event(
    "stop_step_late", "broker %d: %s took longer than %s s", "broker_id step timeout_s"
)
STOP_STEP_FAILED = Event("stop_step_failed", "broker %d: %s failed", "broker_id step")
CONTROLLED_SHUTDOWN_REFUSED = Event(
    "controlled_shutdown_refused", "controlled shutdown: error %d", "error_code"
)
CONTROLLED_SHUTDOWN_INCOMPLETE = Event(
    "controlled_shutdown_incomplete",
    "controlled shutdown: %d leaderships could not be moved",
    "leaderships",
)

# ---- logging
LINES_SUPPRESSED = Event(
    "lines_suppressed",
    "%s %s: suppressed=%d more lines like it",
    "suppressed_event about suppressed",
)
