"""The sparse and the dense index against plain lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.offset_index import OffsetIndex, TailIndex

steps = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 10_000)), min_size=1, max_size=60)


def entries_of(moves: list[tuple[int, int]]) -> list[tuple[int, int]]:
    entries = [(0, 0)]
    for offset, position in moves:
        entries.append((entries[-1][0] + offset, entries[-1][1] + position))
    return entries


@given(steps, st.integers(0, 70_000), st.integers(0, 700_000))
def test_floors_agree_with_a_scan(moves: list[tuple[int, int]], offset: int, position: int) -> None:
    entries = entries_of(moves)
    index = OffsetIndex()
    for entry in entries:
        index.append(*entry)
    assert index.floor_offset(offset) == max(e for e in entries if e[0] <= offset)
    assert index.floor_position(position) == max(p for _, p in entries if p <= position)


def test_an_empty_index_points_to_the_start() -> None:
    index = OffsetIndex()
    assert index.floor_offset(5) == (0, 0)
    assert index.floor_position(5) == 0
    assert len(index) == 0


@given(steps, st.integers(0, 61))
def test_entries_survive_encoding_in_two_parts(moves: list[tuple[int, int]], at: int) -> None:
    entries = entries_of(moves)
    index, copy = OffsetIndex(), OffsetIndex()
    for number, entry in enumerate(entries):
        index.append(*entry)
        if number == at:
            assert copy.extend(index.payload(0), len(index))
    assert copy.extend(index.payload(len(copy)), len(index) - len(copy))
    assert (copy.offsets, copy.positions) == (index.offsets, index.positions)


def test_entries_that_do_not_increase_are_not_taken() -> None:
    index = OffsetIndex()
    index.append(0, 0)
    index.append(10, 100)
    for pairs in ([(10, 200)], [(11, 100)], [(20, 200), (20, 300)], [(20, 200), (30, 150)]):
        other = OffsetIndex()
        for pair in pairs:
            other.append(*pair)
        assert not index.extend(other.payload(0), len(pairs))
        assert len(index) == 2


def test_truncate_keeps_the_first() -> None:
    index = OffsetIndex()
    for number in range(5):
        index.append(number, number * 10)
    index.truncate(2)
    assert index.floor_offset(99) == (1, 10)


@given(steps, st.integers(0, 70_000))
def test_the_tail_is_exact_where_it_reaches(moves: list[tuple[int, int]], offset: int) -> None:
    entries = entries_of(moves)
    tail = TailIndex()
    for entry in entries:
        tail.append(*entry)
    assert tail.floor_offset(offset) == max(e for e in entries if e[0] <= offset)[1]


def test_the_tail_is_bounded_and_says_what_it_does_not_know() -> None:
    tail = TailIndex()
    for number in range(10_000):
        tail.append(number * 3, number * 50)
    assert len(tail) < 600
    assert tail.floor_offset(3) == -1
    assert tail.floor_position(50) == -1
    assert tail.floor_offset(9_999 * 3 + 2) == 9_999 * 50
    assert tail.floor_position(9_998 * 50 + 49) == 9_998 * 50
    tail.clear()
    assert tail.floor_offset(10**6) == -1
