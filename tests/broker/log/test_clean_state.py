"""These tests check how far a log is clean, and since when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.clean_state import ROWS_MAX, CleanState


def test_a_tombstone_waits_from_the_pass_that_made_it_clean() -> None:
    state = CleanState()
    assert state.upto == 0
    assert state.tombstones_below(10**15, 0) == 0
    state.passed(100, 1000, 7)
    state.passed(200, 5000, 7)
    assert state.upto == 200
    assert [state.tombstones_below(now, 1000) for now in (1999, 2000, 5999, 6000)] == [
        0,
        100,
        100,
        200,
    ]
    assert not state.tombstones_due(1999, 1000)
    assert state.tombstones_due(2000, 1000)
    state.passed(200, 7000, 150)
    assert state.upto == 200
    assert not state.tombstones_due(5999, 1000)
    assert state.tombstones_due(6000, 1000), "clean since the pass before, not since this one"


def test_a_cut_takes_rows_along() -> None:
    state = CleanState([(100, 1000), (200, 5000)])
    state.truncate(300)
    assert state.upto == 200
    state.truncate(150)
    assert state.rows(1000) == [(100, 1000), (150, 5000)]
    state.truncate(100)
    assert state.rows(1000) == [(100, 1000)]
    state.truncate(0)
    assert (state.rows(1000), state.upto) == ([], 0)


def test_rows_for_a_recovery_point_leave_the_state_alone() -> None:
    state = CleanState([(100, 1000), (200, 5000)])
    assert state.rows(120) == [(100, 1000), (120, 5000)]
    assert state.rows(0) == []
    assert state.rows(200) == [(100, 1000), (200, 5000)]
    assert state.upto == 200


def test_a_clock_that_goes_back_shortens_no_wait() -> None:
    state = CleanState()
    state.passed(100, 5000, 0)
    state.passed(200, 1000, 0)
    assert state.rows(1000) == [(100, 5000), (200, 5000)]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 1000)), min_size=1, max_size=300))
def test_thinning_never_lets_a_tombstone_go_early(steps: list[tuple[int, int]]) -> None:
    state = CleanState()
    offset = now = 0
    exact: list[tuple[int, int]] = []
    for grown, passed in steps:
        offset, now = offset + grown, now + passed
        state.passed(offset, now, 0)
        exact.append((offset, now))
        assert len(state.rows(offset)) <= ROWS_MAX
        assert state.upto == offset
        for ago in (0, 500, 5000):
            allowed = max([row[0] for row in exact if row[1] <= now - ago], default=0)
            assert state.tombstones_below(now, ago) <= allowed
    assert state.tombstones_below(now + 1, 1) == offset
    again = CleanState(state.rows(offset), offset)
    assert again.rows(offset) == state.rows(offset)
