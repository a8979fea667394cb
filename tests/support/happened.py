"""Log records of events are made here, as a broker's process has them."""

from __future__ import annotations

import logging
from typing import Any

from oncelog_runtime.logs import LogEvent

__all__ = ["happened"]


def happened(name: str, at_ms: int = 0, level: int = logging.INFO, **fields: Any) -> Any:
    """Return the record of an event at a time in ms since 1970."""
    event = LogEvent(name, **fields)
    record = logging.LogRecord("oncelog_broker.x", level, __file__, 1, event, None, None)
    record.created = at_ms / 1000
    return record
