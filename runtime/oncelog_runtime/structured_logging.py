"""Rooms of brokers write their log lines with these loggers: ``logger.info("isr_changed", ...)``.

They are structlog's, in front of the standard library's, whose levels decide what is written; each
line goes on as a :class:`LogEvent`. Nothing global is configured: brokers also run inside the tests
of users, whose own structlog neither changes nor matters. Clients never import this.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from oncelog_runtime.logs import LogEvent

_UNUSED = ("rich", "greenlet")
"""structlog would load them where they are installed, for tracebacks in colour and for contexts of
green threads: 4 MB and 1 MB of a broker, which uses neither."""

_hidden = [name for name in _UNUSED if name not in sys.modules]
for _name in _hidden:
    sys.modules[_name] = None  # type: ignore[assignment]
try:
    import structlog
finally:
    for _name in _hidden:
        del sys.modules[_name]

__all__ = ["EventLogger", "get_logger", "structlog"]

FRAMES = 4
"""Frames between whoever logs and the standard library; records name the line that logged."""


class EventLogger(structlog.stdlib.BoundLogger):
    """It takes the name of an event, and its fields by keyword."""

    def debug(self, event: str | None = None, *args: Any, **fields: Any) -> None:
        """Log for whoever looks for a fault. Costs little where nobody does."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._proxy_to_logger("debug", event, *args, **fields)


def get_logger(name: str) -> EventLogger:
    """Return the logger of a module."""
    processors = (structlog.stdlib.filter_by_level, _hand_on)
    return EventLogger(logging.getLogger(name), processors, {})


def _hand_on(
    logger: object, method: str, line: structlog.types.EventDict
) -> tuple[tuple[LogEvent], dict[str, Any]]:
    """Return what the standard library's method of the same name is called with."""
    exc_info = line.pop("exc_info", None)
    return (LogEvent(line.pop("event"), **line),), {"exc_info": exc_info, "stacklevel": FRAMES}
