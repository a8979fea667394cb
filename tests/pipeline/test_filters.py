"""Filters say where records may lie, and never rule out too much."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from pyspark_oncelog.filters import Bounds
from pyspark_oncelog.offsets import SourcePartition

COMPARED: dict[Any, Callable[[int, int], bool]] = {
    EqualTo: lambda a, b: a == b,
    EqualNullSafe: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}


def bounds(*filters: Filter) -> Bounds:
    found = Bounds()
    for each in filters:
        found.take(each)
    return found


comparisons = st.tuples(
    st.sampled_from(sorted(COMPARED, key=lambda kind: kind.__name__)),
    st.sampled_from(["offset", "partition"]),
    st.integers(0, 9),
)


@given(st.lists(comparisons, max_size=4), st.integers(0, 9), st.integers(0, 9))
def test_bounds_hold_for_what_the_filters_let_through(
    asked: list[Any], partition: int, offset: int
) -> None:
    record = {"partition": partition, "offset": offset}
    found = bounds(*(kind((name,), value) for kind, name, value in asked))
    if all(COMPARED[kind](record[name], value) for kind, name, value in asked):
        assert found.wants(SourcePartition("t", partition))
        assert found.offset_low <= offset < found.offset_high


def test_bounds_narrow() -> None:
    found = bounds(
        EqualTo(("topic",), "t"),
        In(("partition",), (1, 2, None)),
        GreaterThan(("partition",), 1),
        GreaterThanOrEqual(("offset",), 10),
        LessThan(("offset",), 20),
    )
    assert found.wants(SourcePartition("t", 2))
    assert not any(found.wants(tp) for tp in (SourcePartition("t", 1), SourcePartition("u", 2)))
    assert (found.offset_low, found.offset_high) == (10, 20)
    among = bounds(In(("offset",), (7, 3)), In(("topic",), ("a", "b")), EqualTo(("topic",), "b"))
    assert (among.offset_low, among.offset_high, among.topics) == (3, 8, frozenset("b"))
    assert bounds(In(("offset",), ())).offset_low > bounds(In(("offset",), ())).offset_high


def test_times_bound_from_below_only() -> None:
    moment = datetime(2024, 1, 1, 0, 0, 0, 1999, tzinfo=timezone.utc)  # noqa: UP017
    expected = 1_704_067_200_001
    for kind in (GreaterThan, GreaterThanOrEqual, EqualTo):
        assert bounds(kind(("timestamp",), moment)).timestamp_ms == expected
    for other in (LessThan, LessThanOrEqual):
        assert bounds(other(("timestamp",), moment)).timestamp_ms is None


@pytest.mark.parametrize(
    "each",
    [
        Not(EqualTo(("offset",), 5)),
        IsNotNull(("offset",)),
        StringContains(("topic",), "x"),
        EqualTo(("offset",), None),
        EqualNullSafe(("topic",), None),
        EqualTo(("value", "id"), 5),
        EqualTo(("key",), b"x"),
        GreaterThan(("topic",), "a"),
        LessThan(("offset",), 5.5),
        In(("offset",), ("5",)),
        In(("timestamp",), (datetime(2024, 1, 1, tzinfo=timezone.utc),)),  # noqa: UP017
        GreaterThan(("timestamp",), datetime(2024, 1, 1)),
    ],
)
def test_what_is_not_understood_narrows_nothing(each: Filter) -> None:
    assert vars(bounds(each)) == vars(Bounds())
