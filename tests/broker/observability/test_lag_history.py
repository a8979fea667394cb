"""The history says when a partition's end passed an offset: exact at points, even in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.observability.lag_history import POINTS_FEW, POINTS_MAX, LagHistory


def seen(*points: tuple[float, int]) -> LagHistory:
    history = LagHistory()
    for now_s, end in points:
        history.saw(now_s, end)
    return history


def test_nothing_is_late_before_anything_is_known_or_without_lag() -> None:
    assert LagHistory().age_s(10.0, 5) == 0.0
    assert LagHistory().end == -1
    assert seen((0, 10)).age_s(99.0, 10) == 0.0
    assert seen((0, 10)).age_s(99.0, 11) == 0.0


def test_between_two_points_the_end_moves_evenly() -> None:
    history = seen((100, 0), (110, 100))
    assert history.age_s(120, 99) == 10.0
    assert history.age_s(120, 49) == 15.0
    assert abs(history.age_s(120, 0) - 19.9) < 1e-9


def test_what_lies_before_the_first_point_is_at_least_that_old() -> None:
    assert seen((100, 50), (110, 60)).age_s(130, 3) == 30.0


def test_a_record_after_a_quiet_night_is_new() -> None:
    points = [(float(t), 50) for t in range(0, 36_000, 5)]
    history = seen(*points, (36_000.0, 51))
    assert len(history) <= 3
    assert history.age_s(36_001.0, 50) <= 6.0 + 1.0


@pytest.mark.parametrize("burst_h", [1, 3, 12])
def test_what_came_hours_ago_is_known_to_be_so_old(burst_h: int) -> None:
    history, end, day_s = LagHistory(), 0, 24 * 3600
    burst_s = day_s - burst_h * 3600
    for now_s in range(0, day_s + 1, 5):
        end += 1_000_000 if now_s == burst_s else 1
        history.saw(float(now_s), end)
    assert len(history) <= POINTS_MAX
    of_the_burst = end - (day_s - burst_s) // 5 - 500_000
    true_s = day_s - burst_s
    assert abs(history.age_s(day_s, of_the_burst) - true_s) <= 0.4 * true_s


def test_a_log_that_was_cut_begins_anew() -> None:
    history = seen((0, 100), (5, 200), (10, 30))
    assert history.end == 30
    assert history.age_s(20, 10) == 10.0


def test_a_history_that_begins_with_the_past() -> None:
    history = LagHistory()
    history.look_back(1000.0, (80.0, 40.0, 20.0, 10.0), (0, 0, 100, 60))
    history.saw(1000.0, 100)
    assert history.age_s(1000.0, 99) == 20.0
    assert history.age_s(1000.0, 49) == 30.0
    assert 39.0 < history.age_s(1000.0, 0) < 40.0, "quiet before that"
    assert history.age_s(1000.0, 100) == 0.0


@given(
    st.lists(st.tuples(st.floats(0.1, 100), st.integers(0, 1000)), min_size=1, max_size=400),
    st.integers(0, 100_000),
    st.sampled_from((POINTS_FEW, 7, POINTS_MAX)),
)
def test_ages_are_never_negative_and_grow_towards_older_offsets(
    steps: list[tuple[float, int]], offset: int, points_max: int
) -> None:
    history = LagHistory(points_max)
    now_s, end = 0.0, 0
    for wait_s, records in steps:
        now_s, end = now_s + wait_s, end + records
        history.saw(now_s, end)
    assert len(history) <= points_max
    age = history.age_s(now_s, offset)
    assert 0.0 <= age <= now_s
    assert history.age_s(now_s, offset + 1) <= age + 1e-9
    assert (age > 0.0) <= (offset < end)
