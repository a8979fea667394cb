"""These tests check which segments may go."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from oncelog_broker.log.retention import count_deletable


class Age(NamedTuple):
    next_offset: int
    size_bytes: int
    stamp_ms: int


SEGMENTS = [Age(10, 100, 1_000), Age(20, 100, 2_000), Age(30, 100, 3_000)]


def deletable(
    segments: list[Age] = SEGMENTS,
    *,
    now_ms: int = 10_000,
    high_watermark: int = 30,
    log_start_offset: int = 0,
    retention_ms: int = -1,
    retention_bytes: int = -1,
) -> int:
    return count_deletable(
        segments,
        now_ms=now_ms,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        log_size_bytes=sum(segment.size_bytes for segment in segments),
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
    )


@pytest.mark.parametrize(
    ("retention_ms", "count"), [(-1, 0), (9_000, 0), (8_999, 1), (7_999, 2), (6_999, 3), (0, 3)]
)
def test_by_age_of_the_newest_record(retention_ms: int, count: int) -> None:
    assert deletable(retention_ms=retention_ms) == count


@pytest.mark.parametrize(
    ("retention_bytes", "count"), [(-1, 0), (300, 0), (201, 0), (200, 1), (100, 2), (99, 2), (0, 3)]
)
def test_by_size_leaves_at_least_so_much(retention_bytes: int, count: int) -> None:
    assert deletable(retention_bytes=retention_bytes) == count


@pytest.mark.parametrize(("start", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)])
def test_below_the_log_start(start: int, count: int) -> None:
    assert deletable(log_start_offset=start) == count


@pytest.mark.parametrize(("mark", "count"), [(0, 0), (9, 0), (10, 1), (25, 2), (30, 3)])
def test_never_beyond_the_high_watermark(mark: int, count: int) -> None:
    assert deletable(retention_ms=0, high_watermark=mark) == count
    assert deletable(retention_bytes=0, high_watermark=mark) == count
    assert deletable(log_start_offset=30, high_watermark=mark) == count


def test_a_young_segment_protects_the_older_ones_behind_it() -> None:
    segments = [Age(10, 100, 9_999), Age(20, 100, 1)]
    assert deletable(segments, retention_ms=1_000, high_watermark=20) == 0


def test_a_clock_that_went_back_deletes_nothing() -> None:
    assert deletable(now_ms=0, retention_ms=0) == 0


def test_nothing_in_nothing_out() -> None:
    assert deletable([], retention_ms=0) == 0
