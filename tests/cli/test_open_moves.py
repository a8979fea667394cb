"""While a partition moves, its original replicas count."""

from __future__ import annotations

import pytest

from oncelog import TopicPartition
from oncelog.admin.reassignments import COPYING, QUEUED, STALLED, PartitionReassignment
from oncelog.admin.results import PartitionDescription
from oncelog_cli.open_moves import KnownMoves


def known(phase: str = COPYING) -> KnownMoves:
    move = PartitionReassignment(
        TopicPartition("t", 0), "p", phase, (1, 2, 3, 4), (1, 2, 3), (1, 2, 4)
    )
    return KnownMoves({("t", 0): move})


def partition(*isr: int, number: int = 0) -> PartitionDescription:
    return PartitionDescription(number, 1, 0, (1, 2, 3, 4), isr, ())


@pytest.mark.parametrize(
    ("isr", "lacks"),
    [((1, 2, 3), False), ((1, 2, 3, 4), False), ((1, 2, 4), True), ((1, 2), True)],
)
def test_replicas_that_are_added_need_not_be_in_sync(isr: tuple[int, ...], lacks: bool) -> None:
    assert known().lacks_replicas("t", partition(*isr)) is lacks
    assert list(known().originals("t", partition(*isr))) == [1, 2, 3]


def test_without_an_open_move_all_replicas_count() -> None:
    for moves, number in ((known(), 1), (known(QUEUED), 0), (KnownMoves(None, "why"), 0)):
        item = partition(1, 2, 3, number=number)
        assert moves.of("t", number) is None
        assert moves.lacks_replicas("t", item)
        assert moves.originals("t", item) == (1, 2, 3, 4)


def test_what_is_stalled() -> None:
    (stalled,) = known(STALLED).stalled
    assert stalled.partition == TopicPartition("t", 0)
    assert known().stalled == KnownMoves(None).stalled == []
