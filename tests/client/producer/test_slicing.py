"""Lists are cut by bytes: nothing lost, nothing too large, nothing needlessly small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.producer.slicing import cuts, pick, sizes_of


def test_sizes() -> None:
    assert sizes_of([b"abc", b""]) == [3, 0]
    assert sizes_of([b"abc", None]) == [3, 0]


def test_equal_sizes_are_cut_at_a_stride() -> None:
    assert list(cuts([10] * 7, 0, 30)) == [(0, 3, 30), (3, 6, 30), (6, 7, 10)]


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    assert [(a, b) for a, b, _ in cuts([5, 100, 5, 5], 0, 20)] == [(0, 1), (1, 2), (2, 4)]
    assert list(cuts([100, 100], 5, 20)) == [(0, 1, 105), (1, 2, 105)]


def test_nothing_is_cut_into_nothing() -> None:
    assert list(cuts([], 5, 20)) == []


@given(
    sizes=st.lists(st.integers(0, 50), max_size=60),
    extra=st.integers(1, 10),
    batch_size=st.integers(1, 200),
)
def test_cuts_cover_everything_and_hold_the_bound(
    sizes: list[int], extra: int, batch_size: int
) -> None:
    found = list(cuts(sizes, extra, batch_size))
    assert [row for start, stop, _ in found for row in range(start, stop)] == list(
        range(len(sizes))
    )
    for start, stop, size in found:
        assert size == sum(sizes[start:stop]) + extra * (stop - start)
        assert size <= batch_size or stop - start == 1


def test_pick() -> None:
    assert pick([b"a", b"b", None], range(1, 3)) == [b"b", None]
    assert pick([b"a", b"b", None], [2, 0]) == [None, b"a"]
