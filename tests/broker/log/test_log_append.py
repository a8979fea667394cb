"""These tests check what an append is told as."""

from __future__ import annotations

from oncelog_broker.log.log_append import LogAppend
from oncelog_protocol.records.batch import iter_headers
from support.logs import NOW_MS, follower_batches


def test_of_what_a_follower_took() -> None:
    data = follower_batches((5, 2, 1), (7, 3, 2))
    append = LogAppend.of_batches([header for _, header in iter_headers(data)])
    assert append == LogAppend(5, 9, NOW_MS, -1, len(data), 5, False)


def test_of_nothing_there_is_something_to_wait_for() -> None:
    append = LogAppend.nothing(7)
    assert append.repeated
    assert (append.last_offset + 1, append.record_count, append.size_bytes) == (7, 0, 0)
