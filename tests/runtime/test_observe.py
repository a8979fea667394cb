"""Histograms put every value in its bucket, and lose nothing at the ends."""

from __future__ import annotations

from itertools import pairwise

import pytest

from oncelog_runtime.observe import Histogram, precise_time


@pytest.mark.parametrize("seconds", [0.0, 1e-6, 6.3e-5, 6.5e-5, 0.001, 0.5, 3.0, 66.0, 68.0, 1e6])
def test_a_value_is_counted_below_its_bound_and_above_the_one_before(seconds: float) -> None:
    histogram = Histogram()
    histogram.observe(seconds)
    bounds = [*Histogram.BOUNDS_S, float("inf")]
    index = histogram.counts.index(1)
    assert seconds <= bounds[index]
    assert index == 0 or seconds >= bounds[index - 1]
    assert histogram.count == 1
    assert histogram.sum_s == seconds


def test_cumulative_counts_end_with_all() -> None:
    histogram = Histogram()
    for seconds in (0.00001, 0.002, 0.002, 1.0, 1000.0):
        histogram.observe(seconds)
    cumulative = histogram.cumulative()
    assert cumulative == sorted(cumulative)
    assert len(cumulative) == len(Histogram.BOUNDS_S) + 1
    assert cumulative[0] == 1
    assert cumulative[-2:] == [4, 5]


def test_a_clock_that_jumps_back_does_no_harm() -> None:
    histogram = Histogram()
    histogram.observe(-1.0)
    assert (histogram.count, histogram.sum_s, histogram.counts[0]) == (1, 0.0, 1)


def test_bounds_double() -> None:
    bounds = Histogram.BOUNDS_S
    assert bounds[0] == pytest.approx(64e-6)
    assert all(after == pytest.approx(2 * before) for before, after in pairwise(bounds))


def test_the_stopwatch_is_finer_than_a_millisecond() -> None:
    first = precise_time()
    assert 0 <= precise_time() - first < 0.5
