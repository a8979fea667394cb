"""What an append to a log did, for those who asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog_protocol.records.batch import BatchHeader


class LogAppend(NamedTuple):
    """Times in milliseconds since 1970."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    """-1 when the producer set the timestamps."""
    size_bytes: int
    record_count: int
    repeated: bool = False
    """Whether nothing was appended, as the batch is in the log already: there."""

    @classmethod
    def of_batches(cls, headers: Sequence[BatchHeader]) -> LogAppend:
        """Of a follower: at least one batch, whose offset and times are the leader's."""
        return cls(
            headers[0].base_offset,
            headers[-1].last_offset,
            max([header.max_timestamp for header in headers]),
            -1,
            sum([header.size_bytes for header in headers]),
            sum([header.record_count for header in headers]),
        )

    @classmethod
    def nothing(cls, log_end_offset: int) -> LogAppend:
        """Nothing was appended to a log that ends there: what was to be done is done below."""
        return cls(log_end_offset, log_end_offset - 1, -1, -1, 0, 0, True)
