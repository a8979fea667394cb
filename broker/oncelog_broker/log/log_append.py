"""An append to a log tells by this what it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog_protocol.records.batch import BatchHeader


class LogAppend(NamedTuple):
    """It tells where a batch went. Times are in milliseconds since 1970."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    """It is -1 when the producer set the timestamps."""
    size_bytes: int
    record_count: int
    repeated: bool = False
    """It tells that nothing was appended, as the batch is in the log already: there."""

    @classmethod
    def of_batches(cls, headers: Sequence[BatchHeader]) -> LogAppend:
        """Return the append of a follower: at least one batch, whose offset and times are the
        leader's."""
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
        """Return that nothing was appended to a log that ends there, since it was done already,
        below that."""
        return cls(log_end_offset, log_end_offset - 1, -1, -1, 0, 0, True)
