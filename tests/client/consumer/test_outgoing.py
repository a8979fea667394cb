"""What handlers return, and in which order it may go out."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.consumer.lanes import Job, PartitionWork
from oncelog.consumer.outgoing import Outbox, ProducerRecord, checked_results, size_of
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import PartitionState
from oncelog_protocol.types import TopicPartition

ONE = ProducerRecord("out", b"value", b"key")


@pytest.mark.parametrize(
    ("returned", "results"),
    [
        (None, []),
        (ONE, [ONE]),
        ([ONE, ONE], [ONE, ONE]),
        ([], []),
        ((item for item in [ONE]), [ONE]),
        ({ONE: 1}.keys(), [ONE]),
    ],
)
def test_what_a_handler_may_return(returned: object, results: list[ProducerRecord]) -> None:
    assert checked_results(returned) == results


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (b"value", TypeError),
        ("out", TypeError),
        (("out", b"value"), TypeError),
        (7, TypeError),
        ([b"value"], TypeError),
        ([("out", b"value")], TypeError),
        (ProducerRecord("no/topic", b""), ValueError),
        (ProducerRecord(7, b""), ValueError),  # type: ignore[arg-type]
        (ProducerRecord("out", "text"), TypeError),  # type: ignore[arg-type]
        (ProducerRecord("out", b"", headers=[("h", "text")]), TypeError),  # type: ignore[list-item]
        (ProducerRecord("out", b"", timestamp_ms=-1), ValueError),
    ],
)
def test_what_it_may_not(returned: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        checked_results(returned)


def jobs(count: int) -> tuple[Outbox, list[Job]]:
    """A box of records at every second offset."""
    work = PartitionWork(PartitionState(TopicPartition("t", 0)))
    made = [Job(Record("t", 0, 2 * n, 0, None, b""), work, 10) for n in range(count)]
    box = Outbox()
    for job in made:
        box.add(job)
    return box, made


def test_results_go_out_in_the_order_of_their_records() -> None:
    box, (first, second, third, fourth) = jobs(4)
    assert (box.ready, box.first(9), box.offset_after(0)) == ((0, 0), [], 0)
    for job in (second, third):
        job.results = [ONE]
        assert box.handled() == (0, 0), "the first one is not"
    first.results = []
    assert box.handled() == (3, 30)
    assert (box.ready, len(box)) == ((3, 30), 4)
    assert box.first(2) == [first, second]
    assert [box.offset_after(count) for count in (0, 1, 2, 3)] == [0, 2, 4, 6]
    box.committed(2)
    assert (box.first(9), box.offset_after(1)) == ([third], 6)
    fourth.results = [ONE]
    assert box.handled() == (1, 10)
    assert box.offset_after(2) is None, "nothing is behind: the position is the partition's"


def test_what_is_forgotten() -> None:
    box, (first, _, third) = jobs(3)
    first.results = third.results = []
    box.handled()
    assert box.clear() == [first, third], "the handled ones; others are under way elsewhere"
    assert (len(box), box.ready) == (0, (0, 0))


def test_sizes() -> None:
    assert size_of([ONE]) - size_of([ProducerRecord("out")]) == len(b"valuekey")
