"""The history is bounded, keeps peaks and gaps, and says how far behind and where to a group is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oncelog import TopicPartition
from oncelog_console.history import (
    POINTS_MAX,
    SLICE_PARTITIONS,
    Behind,
    FigureHistory,
    PartitionHistory,
    Past,
    Point,
    SeenRebalance,
    Series,
    trend_of,
)
from oncelog_console.settings import HISTORY_MS

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = 1_790_000_000_000
S = 1_000


def series(*values: float | None, step_ms: int = 5 * S) -> Series:
    found = Series(HISTORY_MS)
    for number, value in enumerate(values):
        found.saw(NOW + number * step_ms, value)
    return found


def row(group: str, *lags: int | None, generation: int = 1, topic: str = "t") -> dict[str, Any]:
    """Return what ``groups describe`` says of a group that is so far behind in its partitions."""
    offsets = [
        {
            "topic": topic,
            "partition": number,
            "lag": lag,
            "end_offset": None if lag is None else 100 + lag,
            "offset": 100,
        }
        for number, lag in enumerate(lags)
    ]
    known = [lag for lag in lags if lag is not None]
    return {
        "group": group,
        "generation_id": generation,
        "member_count": 2,
        "lag": sum(known) if len(known) == len(lags) and lags else None,
        "offsets": offsets,
    }


# ------------------------------------------------------------------------------ series


def test_what_is_not_known_is_a_gap_and_no_value() -> None:
    found = series(5, None, None, 7, 8)
    assert [(point.value, point.joined) for point in found] == [(5, False), (7, False), (8, True)]
    assert found.latest == 8
    found.saw(NOW + 100 * S, None)
    assert found.latest is None


def test_a_value_that_stays_takes_two_points() -> None:
    found = series(*[3] * 1_000, 4)
    assert [(point.at_ms, point.value) for point in found] == [
        (NOW, 3),
        (NOW + 999 * 5 * S, 3),
        (NOW + 1_000 * 5 * S, 4),
    ]


def test_a_day_is_kept_for_as_long_as_was_said_with_its_peak() -> None:
    found = Series(keep_ms=HISTORY_MS)
    for number in range(24 * 720):
        found.saw(NOW + number * 5 * S, 9_999 if number == 24 * 720 - 2_000 else number % 7)
    points = list(found)
    assert len(points) <= POINTS_MAX
    assert points[-1].at_ms - points[0].at_ms <= HISTORY_MS
    assert points[-1].at_ms - points[0].at_ms >= HISTORY_MS * 0.9
    assert max(point.value for point in points) == 9_999
    distances = [b.at_ms - a.at_ms for a, b in pairwise(points)]
    assert max(distances) < 30 * 60 * S, "also old points are not far apart"
    assert max(distances[-20:]) < 60 * S, "new points are close together"


def test_thinning_closes_no_gap() -> None:
    found = Series(HISTORY_MS)
    for number in range(2_000):
        found.saw(NOW + number * 5 * S, None if 1_000 <= number < 1_100 else number % 5)
    begun, ended = NOW + 1_000 * 5 * S, NOW + 1_100 * 5 * S
    points = list(found)
    (over,) = [
        after for before, after in pairwise(points) if before.at_ms < begun and after.at_ms >= ended
    ]
    assert not over.joined


def test_a_clock_that_was_put_back_leaves_no_point_in_the_future() -> None:
    found = series(1, 2, 3, 4)
    found.saw(NOW + 6 * S, 9)
    assert [(point.at_ms - NOW, point.value) for point in found] == [(0, 1), (5 * S, 2), (6 * S, 9)]


def test_the_past_is_put_in_front_and_is_told_from_what_was_seen() -> None:
    found = series(5, 6)
    found.look_back([(NOW - 60 * S, 1), (NOW - 30 * S, 3), (NOW + 2 * S, 99)])
    assert list(found) == [
        Point(NOW - 60 * S, 1, joined=False, from_commits=True),
        Point(NOW - 30 * S, 3, joined=True, from_commits=True),
        Point(NOW, 5, joined=True),
        Point(NOW + 5 * S, 6),
    ]


def test_a_past_that_ends_unknown_is_not_joined_with_what_was_seen() -> None:
    found = series(5)
    found.look_back([(NOW - 60 * S, 1), (NOW - 30 * S, None)])
    assert [point.joined for point in found] == [False, False]


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=600),
    st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=300),
)
def test_any_series_is_bounded_in_order_and_of_values_that_were_seen(
    values: list[int | None], past: list[int | None]
) -> None:
    found = series(*values)
    found.look_back((NOW - (len(past) - n) * 5 * S, value) for n, value in enumerate(past))
    points = list(found)
    assert len(points) == len(found) <= POINTS_MAX
    assert [point.at_ms for point in points] == sorted({point.at_ms for point in points})
    assert not points or not points[0].joined
    assert {p.value for p in points if not p.from_commits} <= set(values)
    assert {p.value for p in points if p.from_commits} <= set(past)
    assert all(point.from_commits == (point.at_ms < NOW) for point in points)


# ------------------------------------------------------------------------------ partitions


def test_behind_is_how_long_ago_the_end_passed_the_position() -> None:
    history = PartitionHistory(HISTORY_MS)
    assert history.behind(NOW, 5) is None
    for number, end in enumerate((100, 200, 200)):
        history.saw(NOW + number * 10 * S, 0, end)
    assert history.behind(NOW + 30 * S, 199) == Behind(20 * S, at_least=False)
    assert history.behind(NOW + 30 * S, 149) == Behind(25 * S, at_least=False)
    assert history.behind(NOW + 30 * S, 200) == Behind(0, at_least=False)
    assert history.behind(NOW + 30 * S, 40) == Behind(30 * S, at_least=True)


def test_a_log_that_was_cut_begins_anew() -> None:
    history = PartitionHistory(HISTORY_MS)
    for number, end in enumerate((100, 200, 30)):
        history.saw(NOW + number * 10 * S, 0, end)
    assert history.behind(NOW + 20 * S, 20) == Behind(0, at_least=True)


def test_the_past_makes_behind_exact() -> None:
    history = PartitionHistory(HISTORY_MS)
    history.saw(NOW, 50, 200)
    assert history.behind(NOW, 150) == Behind(0, at_least=True)
    history.look_back([Past(NOW - 60 * S, 100, 100), Past(NOW - 10 * S, 150, 200)])
    assert history.behind(NOW, 149) == Behind(35 * S, at_least=False)
    assert [point.value for point in history.lag] == [0, 50, 50]


# ------------------------------------------------------------------------------ groups


def test_a_group_has_its_sum_its_partitions_and_its_rebalances() -> None:
    history = FigureHistory(HISTORY_MS)
    history.saw(row("g", 5, 7), NOW)
    history.saw(row("g", 6, None, generation=2), NOW + 5 * S)
    history.saw(row("g", 6, 8, generation=2), NOW + 10 * S)
    group = history.of("g")
    assert group is not None
    assert [(point.value, point.joined) for point in group.lag] == [(12, False), (14, False)]
    assert [point.value for point in group.partitions[T0].lag] == [5, 6, 6]
    assert list(group.rebalances) == [SeenRebalance(NOW + 5 * S, 2, 2)]
    history.saw(row("g", 6, generation=2), NOW + 15 * S)
    assert list(group.partitions) == [T0], "its offsets in t-1 were deleted"


def test_a_group_that_cannot_be_described_has_a_gap() -> None:
    history = FigureHistory(HISTORY_MS)
    history.saw(row("g", 5), NOW)
    history.missed("g", NOW + 5 * S)
    history.missed("unknown", NOW + 5 * S)
    history.saw(row("g", 5), NOW + 10 * S)
    group = history.of("g")
    assert group is not None
    assert [point.joined for point in group.lag] == [False, False]
    assert [point.joined for point in group.partitions[T0].lag] == [False, False]


def test_silence_is_a_gap_in_all_groups() -> None:
    history = FigureHistory(HISTORY_MS)
    for name in "gh":
        history.saw(row(name, 3), NOW)
    history.missed_all(NOW + S)
    for name in "gh":
        known = history.of(name)
        assert known is not None
        assert known.lag.latest is None


def test_the_past_of_a_group_is_read_once() -> None:
    history = FigureHistory(HISTORY_MS)
    history.look_back("g", {})
    history.saw(row("g", 5, 7), NOW)
    past = {
        T0: [Past(NOW - 20 * S, 90, 100), Past(NOW - 10 * S, 95, 100)],
        T1: [Past(NOW - 20 * S, 90, 91), Past(NOW - 10 * S, 95, None)],
    }
    for _ in range(2):
        history.look_back(
            "g", past, [SeenRebalance(NOW - 15 * S, 1, 2), SeenRebalance(NOW + S, 9, 9)]
        )
    group = history.of("g")
    assert group is not None
    assert [(p.value, p.joined, p.from_commits) for p in group.lag] == [
        (11, False, True),
        (12, False, False),
    ], "the sum is not known where that of a partition is not"
    assert list(group.rebalances) == [
        SeenRebalance(NOW - 15 * S, 1, 2),
        SeenRebalance(NOW + S, 9, 9),
    ]


def test_those_looked_at_are_asked_about_first() -> None:
    history = FigureHistory(HISTORY_MS, groups_max=3)
    history.look_at("d", NOW)
    history.look_at("b", NOW + 1)
    history.look_at("gone", NOW + 2)
    assert history.wanted(["a", "b", "c", "d"], NOW + 3) == ["b", "d", "a"]


def test_room_is_made_by_those_that_nobody_looked_at() -> None:
    history = FigureHistory(HISTORY_MS, partitions_max=4)
    history.look_at("seen", NOW)
    history.saw(row("seen", 1, 1), NOW)
    history.saw(row("unseen", 1, 1), NOW)
    history.saw(row("late", 1), NOW)
    assert history.of("late") is None, "nobody looks at it, and the room is taken"
    history.look_at("wanted", NOW + 1)
    history.saw(row("wanted", 1, 1), NOW + 1)
    assert history.of("unseen") is None
    assert (history.partition_count, len(history)) == (4, 2)
    assert history.wanted(["late", "seen", "wanted"], NOW + 2) == ["wanted", "seen"]


def test_a_group_with_more_partitions_than_there_is_room_keeps_the_first() -> None:
    history = FigureHistory(HISTORY_MS, partitions_max=3)
    history.saw(row("other", 1), NOW)
    history.look_at("big", NOW)
    history.saw(row("big", *range(10)), NOW)
    assert (history.partition_count, history.of("other")) == (3, None)
    history.saw(row("big", *range(10)), NOW + S)
    assert history.partition_count == 3


def test_groups_that_are_gone_are_forgotten() -> None:
    history = FigureHistory(keep_ms=60 * S)
    history.saw(row("g", 1), NOW)
    assert history.wanted([], NOW + 30 * S) == []
    assert history.of("g") is not None
    history.wanted([], NOW + 61 * S)
    assert history.of("g") is None


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 6), st.booleans()), max_size=60)
)
def test_any_history_is_bounded(steps: list[tuple[str, int, bool]]) -> None:
    history = FigureHistory(HISTORY_MS, groups_max=4, partitions_max=9)
    for number, (name, count, looked) in enumerate(steps):
        if looked:
            history.look_at(name, NOW + number * S)
        history.saw(row(name, *range(count)), NOW + number * S)
        assert len(history) <= 4
        assert history.partition_count <= 9
        if looked:
            assert history.of(name) is not None, "whoever looks sees"


# ------------------------------------------------------------------------------ trends


def test_trends() -> None:
    minutes = range(0, 600, 5)
    end_ms = NOW + 595 * S
    assert trend_of(list(series(*[s * 2 for s in minutes])), end_ms) == "growing"
    assert trend_of(list(series(*[2_000 - s for s in minutes])), end_ms) == "shrinking"
    assert trend_of(list(series(*[50 + (s // 5) % 2 * 40 for s in minutes])), end_ms) == "steady"
    assert trend_of(list(series(*[0 for _ in minutes])), end_ms) == "steady"


def test_a_trend_is_not_known_before_a_minute_was_seen() -> None:
    assert trend_of([], NOW) is None
    assert trend_of(list(series(1, 2, 3)), NOW + 10 * S) is None


def test_a_trend_is_that_of_the_last_minutes() -> None:
    rising = [s * 10 for s in range(1_000)]
    found = list(series(*rising, *[rising[-1]] * 200))
    assert trend_of(found, NOW + 1_199 * 5 * S) == "steady"


def test_a_large_group_is_noted_in_slices_and_not_over_what_is_newer() -> None:
    history = FigureHistory(HISTORY_MS)
    lags = range(2 * SLICE_PARTITIONS + 1)
    assert list(history.seeing(row("g", *lags), NOW)) == [SLICE_PARTITIONS] * 3
    known = history.of("g")
    assert known is not None
    assert [each.lag[-1].value for each in known.partitions.values()] == list(lags)
    steps = history.seeing(row("g", *lags), NOW + 5 * S)
    assert next(steps) == SLICE_PARTITIONS
    history.saw(row("g", *[lag + 1 for lag in lags]), NOW + 6 * S)
    assert list(steps) == []
    assert [each.lag[-1] for each in known.partitions.values()] == [
        Point(NOW + 6 * S, lag + 1) for lag in lags
    ]
