"""A broker process's log is written here: text for a person, JSON lines for a machine.

All rooms log with the standard library, as ``oncelog_runtime.logs`` says; here, once per process,
those records get their shape from structlog. Nothing below ``__main__`` calls this.

A line of JSON has ``event`` (its name, ``unnamed`` for what libraries log), ``message`` (the text),
``level``, ``logger``, ``timestamp``, ``broker`` (whose log this is), the fields of the event, and
``exception`` where there is one.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from oncelog_broker.log_levels import REPEAT_MAX, set_levels
from oncelog_broker.logged import LINES_SUPPRESSED
from oncelog_runtime.clock import monotonic_s
from oncelog_runtime.logs import Event, Overdue, Repetitions, Subject, fields_of

if "rich" in sys.modules:
    import structlog
else:
    # It would load rich where that is installed, for tracebacks in colour: 4 MB of a broker, which
    # prints none.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        del sys.modules["rich"]

__all__ = ["REPEAT_INTERVAL_S", "LogHandler", "configure_logging"]

REPEAT_INTERVAL_S = 10.0

UNNAMED = "unnamed"


def configure_logging(
    log_format: str,
    level: str,
    broker_id: int,
    stream: TextIO | None = None,
    *,
    levels: Mapping[str, str] | None = None,
    repeat_max: int = REPEAT_MAX,
    now_s: Callable[[], float] = monotonic_s,
) -> None:
    """Send every record to ``stream`` (default: standard error).

    :param log_format: "text", "json", or "auto": text on a terminal, else JSON.
    :param levels: of rooms or modules, where they differ from ``level``; see ``log_levels``.
    :param repeat_max: lines about the same thing in ten seconds; 0: all.
    :param now_s: seconds of the clock that event loops have.
    """
    out = stream if stream is not None else sys.stderr
    as_text = log_format == "text" or (log_format == "auto" and out.isatty())
    handler = LogHandler(out, Repetitions(repeat_max, REPEAT_INTERVAL_S), now_s)
    handler.setFormatter(_text(out.isatty()) if as_text else _json(broker_id))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        if isinstance(old, LogHandler):
            old.close()
    root.addHandler(handler)
    set_levels(level, levels or {})


class LogHandler(logging.StreamHandler[TextIO]):
    """It writes lines, and of the same line only so many in a while.

    It tells what was left out with the next line of whatever kind. DEBUG and CRITICAL always pass:
    the one is asked for, the other is rare.
    """

    def __init__(
        self, out: TextIO, repetitions: Repetitions, now_s: Callable[[], float] = monotonic_s
    ) -> None:
        super().__init__(out)
        self._repetitions = repetitions
        self._now_s = now_s

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``: called under its lock, from any thread."""
        now_s = self._now_s()
        self._tell(self._repetitions.overdue(now_s))
        if logging.DEBUG < record.levelno < logging.CRITICAL and not self._repetitions.passes(
            Subject.of(record), now_s
        ):
            return
        super().emit(record)

    def close(self) -> None:
        """Tell what was left out; the stream stays open."""
        self.acquire()
        try:
            self._tell(self._repetitions.rest())
        finally:
            self.release()
        super().close()

    def _tell(self, overdue: list[Overdue]) -> None:
        for subject, count in overdue:
            values = (subject.event, subject.about, count)
            super().emit(
                logging.LogRecord(
                    subject.logger, subject.level, __file__, 0, LINES_SUPPRESSED, values, None
                )
            )


def _text(colors: bool) -> logging.Formatter:
    """Return the formatter of ``timestamp [level] text [logger] name=event``."""
    return _formatter(
        _name_after_text,
        structlog.dev.ConsoleRenderer(
            colors=colors, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        ),
    )


def _json(broker_id: int) -> logging.Formatter:
    def add_broker(
        logger: object, method: str, line: structlog.types.EventDict
    ) -> structlog.types.EventDict:
        line["broker"] = broker_id
        return line

    return _formatter(
        _fields_and_name,
        add_broker,
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(),
    )


def _formatter(*last: structlog.types.Processor) -> logging.Formatter:
    first: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    naming, *rest = last
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=first,
        processors=[naming, structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rest],
        pass_foreign_args=True,
    )


def _name_after_text(
    logger: object, method: str, line: structlog.types.EventDict
) -> structlog.types.EventDict:
    line.pop("positional_args", None)
    message = line["_record"].msg
    if isinstance(message, Event):
        line["name"] = message.name
    return line


def _fields_and_name(
    logger: object, method: str, line: structlog.types.EventDict
) -> structlog.types.EventDict:
    message = line["_record"].msg
    fields = fields_of(message, line.pop("positional_args", None))
    line["message"] = line["event"]
    line["event"] = message.name if isinstance(message, Event) else UNNAMED
    for name, value in fields.items():
        line.setdefault(name, _plain(value))
    return line


def _plain(value: object) -> Any:
    """Return what JSON can say of a value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(str(each) for each in value)
    return str(value) or repr(value)
