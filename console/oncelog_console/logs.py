"""The console writes its log lines to one stream, for people: time, level, event and fields."""

from __future__ import annotations

import logging
from typing import TextIO


def configure_logging(stream: TextIO) -> None:
    """Send every line of INFO and above to a stream."""
    handler = logging.StreamHandler(stream)
    formatter = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%S%z")
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # its lines on starting say nothing
