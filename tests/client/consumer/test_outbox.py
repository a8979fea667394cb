"""In which order results may go out."""

from __future__ import annotations

from oncelog.consumer.lanes import HandlerJob, PartitionWork
from oncelog.consumer.outbox import Outbox
from oncelog.consumer.outgoing import ProducerRecord
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import TopicPartitionState
from oncelog_protocol.types import TopicPartition

ONE = ProducerRecord("out", b"value", b"key")


def jobs(count: int) -> tuple[Outbox, list[HandlerJob]]:
    """Return a box of records at every second offset."""
    work = PartitionWork(TopicPartitionState(TopicPartition("t", 0)))
    made = [HandlerJob(Record("t", 0, 2 * n, 0, None, b""), work, 10) for n in range(count)]
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
