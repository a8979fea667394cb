"""These tests check what an application may want to commit."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.consumer.offset_metadata import checked_offsets

A = TopicPartition("t", 0)


def test_numbers_and_full_offsets() -> None:
    full = OffsetAndMetadata(4, "note", 2)
    other: Any = ("t", 1)
    assert checked_offsets({A: 3, other: full}) == {
        A: OffsetAndMetadata(3, "", -1),
        TopicPartition("t", 1): full,
    }
    assert all(type(tp) is TopicPartition for tp in checked_offsets({other: 1}))


NO_TEXT: Any = 3


@pytest.mark.parametrize(
    "given",
    [-1, 1.5, True, "1", None, OffsetAndMetadata(-1), OffsetAndMetadata(1, NO_TEXT)],
)
def test_nonsense(given: Any) -> None:
    with pytest.raises(ValueError, match="t-0: "):
        checked_offsets({A: given})


def test_no_member() -> None:
    assert GroupMetadata("g") == ("g", -1, "", None)
