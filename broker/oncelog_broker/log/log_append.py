"""What an append to a log did, for those who asked for it."""

from __future__ import annotations

from typing import NamedTuple


class LogAppend(NamedTuple):
    """Times in milliseconds since 1970."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    """-1 when the producer set the timestamps."""
    size_bytes: int
    record_count: int
