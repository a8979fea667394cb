"""A broker process's log is written here: text for a person, JSON lines for a machine.

All rooms log through the standard library, as ``oncelog_runtime.logs`` says; here, once in a
process, those records get their shape from structlog. Nothing below ``__main__`` calls this.

A line of JSON has ``event`` (its name), ``level``, ``logger``, ``timestamp``, ``broker`` (whose log
this is), the fields of the event, and ``exception`` where there is one. What libraries log has the
event ``unnamed`` and its text as ``message``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from oncelog_broker.log_levels import LOGGERS, REPEAT_MAX, set_levels
from oncelog_broker.server.event_history import EventHistory, EventRecorder
from oncelog_runtime.audit_file import AuditFile
from oncelog_runtime.clock import monotonic_s
from oncelog_runtime.logs import LogEvent, Overdue, Repetitions, Subject, plain
from oncelog_runtime.structured_logging import structlog

__all__ = ["REPEAT_INTERVAL_S", "LogHandler", "configure_logging", "record_events"]

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
    audit_file: str | None = None,
) -> AuditFile | None:
    """Send every record to ``stream`` (default: standard error), and those of the audit to their
    file, which is returned, if there is to be one.

    :param log_format: "text", "json", or "auto": text on a terminal, else JSON.
    :param levels: of rooms or modules, where they differ from ``level``; see ``log_levels``.
    :param repeat_max: lines about the same thing in ten seconds; 0: all.
    :param now_s: seconds of the clock that event loops have.
    :param audit_file: lines of the audit go there; None: among the others.
    :raises OSError: the audit's file cannot be opened.
    """
    audit = None if audit_file is None else AuditFile(audit_file, _json(broker_id))
    out = stream if stream is not None else sys.stderr
    as_text = log_format == "text" or (log_format == "auto" and out.isatty())
    handler = LogHandler(out, Repetitions(repeat_max, REPEAT_INTERVAL_S), now_s)
    handler.setFormatter(_text(out.isatty()) if as_text else _json(broker_id))
    root = logging.getLogger()
    of_audit = logging.getLogger(LOGGERS["audit"])
    for owner in (root, of_audit):
        for old in list(owner.handlers):
            owner.removeHandler(old)
            if isinstance(old, LogHandler | AuditFile):
                old.close()
    root.addHandler(handler)
    of_audit.propagate = audit is None
    if audit is not None:
        of_audit.addHandler(audit)
    set_levels(level, levels or {})
    return audit


def record_events(history: EventHistory) -> Callable[[], None]:
    """Have a history hear of every record; calling what is returned ends that."""
    root, recorder = logging.getLogger(), EventRecorder(history)
    root.addHandler(recorder)
    return lambda: root.removeHandler(recorder)


class LogHandler(logging.StreamHandler[TextIO]):
    """It writes lines, and of the same line only so many in a while.

    It tells what was left out with the next line of whatever kind. DEBUG and CRITICAL always pass:
    the one is asked for, the other is rare. So do lines of the audit, which are limited before.
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
        if self._limits(record) and not self._repetitions.passes(Subject.of(record), now_s):
            return
        super().emit(record)

    @staticmethod
    def _limits(record: logging.LogRecord) -> bool:
        """Return whether lines like this one may be left out. The audit has limits of its own."""
        passes = record.levelno <= logging.DEBUG or record.levelno >= logging.CRITICAL
        return not passes and record.name != LOGGERS["audit"]

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
            line = LogEvent(
                "lines_suppressed",
                suppressed_event=subject.event,
                about=subject.about,
                suppressed=count,
            )
            super().emit(
                logging.LogRecord(subject.logger, subject.level, __file__, 0, line, None, None)
            )


def _text(colors: bool) -> logging.Formatter:
    """Return the formatter of ``timestamp [level] event [logger] field=value``."""
    return _formatter(
        structlog.dev.ConsoleRenderer(
            colors=colors,
            pad_event_to=0,
            sort_keys=False,
            exception_formatter=structlog.dev.plain_traceback,
        )
    )


def _json(broker_id: int) -> logging.Formatter:
    def complete(
        logger: object, method: str, line: structlog.types.EventDict
    ) -> structlog.types.EventDict:
        if not isinstance(line["_record"].msg, LogEvent):
            line["event"], line["message"] = UNNAMED, line["event"]
        line["broker"] = broker_id
        return line

    return _formatter(
        structlog.processors.format_exc_info, structlog.processors.JSONRenderer(), first=complete
    )


def _formatter(
    *last: structlog.types.Processor, first: structlog.types.Processor | None = None
) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        processors=[
            _fields,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([first] if first else []),
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *last,
        ]
    )


def _fields(
    logger: object, method: str, line: structlog.types.EventDict
) -> structlog.types.EventDict:
    event = line["_record"].msg
    if isinstance(event, LogEvent):
        line.update((name, plain(value)) for name, value in event.items())
    return line
