"""Metrics and probes write these log lines: names, texts, fields (see ``oncelog_runtime.logs``)."""

from __future__ import annotations

from oncelog_runtime.logs import Event
from oncelog_runtime.logs import get_logger as get_logger

HTTP_LISTENS = Event("http_listens", "metrics and probes at http://%s:%d", "host port")
COLLECTOR_FAILED = Event("collector_failed", "metrics of %s could not be told", "part")
LAG_NOT_KNOWN = Event("lag_not_known", "the lag of groups could not be looked up: %r", "error")
