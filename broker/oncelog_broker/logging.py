"""How a broker process writes its log: text for a person, JSON lines for a machine.

All rooms log with the standard library; here, once per process, those records get their shape from
structlog. Nothing below ``__main__`` calls this.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog


def configure_logging(
    log_format: str, level: str, broker_id: int, stream: TextIO | None = None
) -> None:
    """Send every record to ``stream`` (default: standard error).

    :param log_format: "text", "json", or "auto": text on a terminal, else JSON.
    """
    out = stream if stream is not None else sys.stderr
    as_text = log_format == "text" or (log_format == "auto" and out.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.PositionalArgumentsFormatter(),
    ]

    def add_broker(
        logger: object, method: str, event: structlog.types.EventDict
    ) -> structlog.types.EventDict:
        event["broker"] = broker_id
        return event

    final: list[structlog.types.Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta
    ]
    if as_text:
        final.append(structlog.dev.ConsoleRenderer(colors=out.isatty(), pad_event_to=0))
    else:
        final += [add_broker, structlog.processors.format_exc_info]
        final.append(structlog.processors.JSONRenderer())
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=final)
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    # kazoo narrates its connection attempts; what matters of it the store logs itself.
    logging.getLogger("kazoo").setLevel(logging.WARNING if level != "debug" else logging.DEBUG)
