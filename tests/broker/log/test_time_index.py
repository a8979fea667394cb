"""The running maximum of timestamps against a scan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.time_index import TimeIndex


@given(st.lists(st.integers(-1, 100), max_size=40), st.integers(-1, 110))
def test_everything_before_the_entry_is_older(stamps: list[int], sought: int) -> None:
    index, newest = TimeIndex(), -1
    for stamp in stamps:  # an entry for each batch
        index.append(newest)
        newest = max(newest, stamp)
    entry = index.last_before(sought)
    first = next((n for n, stamp in enumerate(stamps) if stamp >= sought), len(stamps))
    assert all(stamp < sought for stamp in stamps[: max(0, entry)])
    assert entry <= first
    if 0 <= first < len(stamps) and sought >= 0:
        assert entry == first  # and it is the last such entry: nothing is walked in vain


@given(st.lists(st.integers(-1, 2**62), max_size=40), st.integers(0, 40))
def test_entries_survive_encoding_in_two_parts(stamps: list[int], at: int) -> None:
    stamps.sort()
    index, copy = TimeIndex(), TimeIndex()
    for number, stamp in enumerate(stamps):
        index.append(stamp)
        if number == at:
            assert copy.extend(index.payload(0))
    assert copy.extend(index.payload(len(copy)))
    assert copy.timestamps == index.timestamps


def test_entries_that_decrease_are_not_taken() -> None:
    index, other = TimeIndex(), TimeIndex()
    index.append(50)
    other.append(40)
    assert not index.extend(other.payload(0))
    other.truncate(0)
    other.append(60)
    other.append(55)
    assert not index.extend(other.payload(0))
    assert len(index) == 1


def test_truncate_keeps_the_first() -> None:
    index = TimeIndex()
    for stamp in (1, 2, 3):
        index.append(stamp)
    index.truncate(1)
    assert list(index.timestamps) == [1]
