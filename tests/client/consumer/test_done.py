"""Contiguous offsets: nothing below the position is undone, and the position is no lower."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.consumer.done import DoneOffsets


def test_out_of_order() -> None:
    offsets = DoneOffsets()
    assert offsets.position == -1
    for offset in (5, 6, 9):
        offsets.begin(offset)
    assert (offsets.position, offsets.span) == (5, 3)
    offsets.finish(9)
    assert (offsets.position, offsets.span) == (5, 3)
    offsets.finish(5)
    assert (offsets.position, offsets.span) == (6, 2)
    offsets.finish(6)
    assert (offsets.position, offsets.span) == (10, 0)
    assert offsets.follows(10)
    assert not offsets.follows(9)


@pytest.mark.parametrize("offset", [4, 6, 8])
def test_what_is_not_under_way_cannot_be_done(offset: int) -> None:
    offsets = DoneOffsets()
    for begun in (5, 6, 7):
        offsets.begin(begun)
    offsets.finish(6)
    with pytest.raises(AssertionError):
        offsets.finish(offset)


def test_nothing_begins_twice() -> None:
    offsets = DoneOffsets()
    offsets.begin(5)
    with pytest.raises(AssertionError):
        offsets.begin(5)


@given(st.sets(st.integers(0, 60)), st.data())
def test_against_the_definition(chosen: set[int], data: st.DataObject) -> None:
    waiting = sorted(chosen)
    offsets, begun, done = DoneOffsets(), list[int](), set[int]()
    while waiting or len(done) < len(begun):
        undone = [offset for offset in begun if offset not in done]
        if waiting and (not undone or data.draw(st.booleans())):
            begun.append(waiting.pop(0))
            offsets.begin(begun[-1])
        else:
            offset = data.draw(st.sampled_from(undone))
            done.add(offset)
            offsets.finish(offset)
        undone = [offset for offset in begun if offset not in done]
        assert offsets.position == (undone[0] if undone else begun[-1] + 1)
        assert offsets.span == (len(begun) - begun.index(undone[0]) if undone else 0)
