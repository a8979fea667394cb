"""Tasks, connections and the HTTP port write these log lines (see ``oncelog_runtime.logs``)"""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

# ---- channel
CHANNEL_CLOSED = Event("channel_closed", "%s: connection closed: %s", "peer reason")
CHANNEL_DROPPED = Event("channel_dropped", "%s: connection dropped: %s", "peer error")

# ---- HTTP port
HTTP_REQUEST_FAILED = Event("http_request_failed", "GET %s failed", "path")

# ---- tasks
TASK_FAILED = Event("task_failed", "task %s/%s failed: %r", "owner task error")
