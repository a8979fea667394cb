"""What clients were told is held against the right copies of it."""

from __future__ import annotations

import itertools

import pytest

from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles
from simulation.log_view import LogView
from simulation.promises import _believe
from simulation.store_view import InvariantViolation
from simulation.truth import Promise, Truth

PATH = "/data/0/t-0/00000000000000000000.log"


def view(*batches: tuple[int, int, bytes]) -> LogView:
    """Make a log of batches: base offset, leader epoch, value of its one record."""
    files = MemoryFiles("/data", "/data/0")
    files.make_dirs("/data/0/t-0")
    data = [
        bytes(encode_batch([value], timestamps=1, base_offset=base, leader_epoch=epoch))
        for base, epoch, value in batches
    ]
    files.open(PATH, create=True).append([b"".join(data)])
    found = LogView(files)
    assert found._walk(PATH, None), found.fault
    return found


COMMITTED = (0, 1, b"a")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_copies_that_nobody_showed_that_of_the_newest_epoch_was_promised(
    order: tuple[int, ...],
) -> None:
    """Seed 249177273: a deposed leader had taken the same record, which is cut afterwards; whoever
    acknowledged it died before anybody had looked at it."""
    views = [view(COMMITTED, (1, epoch, b"b")) for epoch in (1, 2)] + [view(COMMITTED)]
    truth = Truth(TopicPartition("t", 0), "id")
    truth.canon.extend(views[0], 1)
    _believe(truth, Promise(1, b"b", acked=True), [views[index] for index in order])
    batch = truth.canon.at(1)
    assert batch is not None
    assert (batch.epoch, truth.high) == (2, 2)


def test_a_promise_that_no_copy_keeps() -> None:
    views = [view(COMMITTED, (1, 3, b"c")), view((0, 2, b"x"), (1, 2, b"b"))]
    truth = Truth(TopicPartition("t", 0), "id")
    truth.canon.extend(views[0], 1)
    with pytest.raises(InvariantViolation, match="is on no replica"):
        _believe(truth, Promise(1, b"b", acked=True), views)
