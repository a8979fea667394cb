"""These tests check how much a micro-batch reads, in which pieces, and what counts as lost."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_oncelog.offsets import SourcePartition
from pyspark_oncelog.planning import (
    Cause,
    DataLossError,
    LostOffsets,
    OffsetSpan,
    enough,
    limited,
    retention_losses,
    split,
    tail_losses,
)

A, B = SourcePartition("t", 0), SourcePartition("t", 1)
SIZES = st.lists(st.integers(0, 10_000), min_size=1, max_size=6)


def span(number: int, start: int, end: int) -> OffsetSpan:
    return OffsetSpan("t", "id", number, start, end)


@given(SIZES, st.integers(1, 50_000))
def test_a_limit_is_shared_and_nobody_starves(sizes: list[int], most: int) -> None:
    start = {SourcePartition("t", number): 100 for number in range(len(sizes))}
    latest = {SourcePartition("t", number): 100 + size for number, size in enumerate(sizes)}
    ends = limited(start, latest, most)
    assert all(start[tp] <= ends[tp] <= latest[tp] for tp in latest)
    assert all(ends[tp] > 100 for tp in latest if latest[tp] > 100)
    count = sum(ends[tp] - 100 for tp in ends)
    assert count <= max(most, 0) + len(sizes)
    if sum(sizes) <= most:
        assert ends == latest
    else:
        assert count >= most - len(sizes)


def test_a_limit_is_shared_in_proportion() -> None:
    assert limited({A: 0, B: 0}, {A: 300, B: 100}, 100) == {A: 75, B: 25}


def test_a_shrunk_log_is_none_to_be_limited() -> None:
    assert limited({A: 50, B: 0}, {A: 20, B: 100}, 10) == {A: 20, B: 10}


def test_when_a_micro_batch_is_worth_its_while() -> None:
    start, latest = {A: 0, B: 5}, {A: 3, B: 5}
    assert enough(start, latest, None, 0, 1000)
    assert enough(start, latest, 3, 0, 1000)
    assert not enough(start, latest, 4, 999, 1000)
    assert enough(start, latest, 4, 1000, 1000)
    assert not enough(latest, latest, None, 10_000, 0)
    assert not enough(latest, latest, 1, 10_000, 0)


@given(SIZES, st.one_of(st.none(), st.integers(1, 40)), st.one_of(st.none(), st.integers(1, 500)))
def test_pieces_follow_without_gap_or_overlap(
    sizes: list[int], pieces: int | None, largest: int | None
) -> None:
    spans = [span(number, 7, 7 + size) for number, size in enumerate(sizes)]
    found = split(spans, pieces, largest)
    assert all(piece.size > 0 for piece in found)
    for each in spans:
        own = [piece for piece in found if piece.partition == each.partition]
        covered = [offset for piece in own for offset in (piece.start, piece.end)]
        marks = sorted({*covered, each.start, each.end}) if each.size else []
        assert [(p.start, p.end) for p in own] == list(pairwise(marks))
    if largest is not None:
        assert all(piece.size <= largest for piece in found)
    if pieces is not None:
        assert len(found) >= min(pieces, sum(sizes))
    if pieces is None and largest is None:
        assert found == [each for each in spans if each.size]


def test_large_spans_are_cut_first() -> None:
    found = split([span(0, 0, 1000), span(1, 0, 10)], 4)
    assert [piece.partition for piece in found] == [0, 0, 0, 1]


def test_retention_is_told_from_a_gap() -> None:
    spans = [span(0, 5, 20), span(1, 5, 20), span(2, 5, 8), span(3, 4, 4)]
    logs = {A: 5, B: 9, SourcePartition("t", 2): 30, SourcePartition("t", 3): 30}
    left, losses = retention_losses(spans, logs)
    assert left == [span(0, 5, 20), span(1, 9, 20), span(2, 8, 8), span(3, 4, 4)]
    assert [(loss.partition, loss.first, loss.end) for loss in losses] == [
        (B, 5, 9),
        (SourcePartition("t", 2), 5, 8),
    ]
    assert {loss.cause for loss in losses} == {Cause.RETENTION}


def test_a_log_that_ends_before_the_plan() -> None:
    left, losses = tail_losses([span(0, 5, 20), span(1, 5, 20)], {A: 20, B: 3})
    assert left == [span(0, 5, 20), span(1, 3, 3)]
    assert [(loss.partition, loss.first, loss.end) for loss in losses] == [(B, 5, 20)]
    assert losses[0].cause is Cause.TRUNCATED


def test_an_error_names_the_range_the_reason_and_the_remedy() -> None:
    error = DataLossError([LostOffsets(B, Cause.RETENTION, 5, 9, "the log begins at offset 9 now")])
    told = str(error)
    assert "t-1: offsets 5 to 8 are lost: retention has passed" in told
    assert "begins at offset 9" in told
    assert "failOnDataLoss=false" in told
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.losses) == (told, error.losses)
    whole = DataLossError([LostOffsets(A, Cause.RECREATED, 7, 7)])
    assert "from offset 7 is lost: the topic was deleted and made again" in str(whole)
    with pytest.raises(DataLossError):
        raise copied
