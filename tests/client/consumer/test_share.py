"""These tests pause partitions under back-pressure, and let them go on."""

from __future__ import annotations

from typing import Any, cast

from oncelog.consumer.core import ConsumerCore
from oncelog.consumer.lanes import PartitionWork
from oncelog.consumer.share import SPAN_FACTOR, Limits, Share
from oncelog.consumer.subscription import TopicPartitionState
from oncelog_protocol.types import TopicPartition


class StandIn:
    """It has as much of a consumer as these tests need."""

    def __init__(self, count: int) -> None:
        self.tps = [TopicPartition("t", number) for number in range(count)]
        self.states = {tp: TopicPartitionState(tp) for tp in self.tps}
        self.subscription = self
        self.closed = False

    def pause(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self.states[tp].pause()

    def resume(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self.states[tp].resume()

    @property
    def paused(self) -> list[int]:
        return [tp.partition for tp, state in self.states.items() if state.paused]


class Bench:
    def __init__(self, count: int, records: int, bytes_: int = 1_000_000) -> None:
        self.consumer = StandIn(count)
        self.share = Share(
            cast(ConsumerCore, cast(Any, self.consumer)), Limits(records, bytes_), 500
        )
        self.works = {tp: PartitionWork(state) for tp, state in self.consumer.states.items()}
        self.next_offset = 0

    def add(self, number: int, count: int, size: int = 1) -> None:
        work = self.works[self.consumer.tps[number]]
        for _ in range(count):
            work.offsets.begin(self.next_offset)
            self.next_offset += 1
            work.undone += 1
            work.bytes += size
            self.share.add(size)

    def remove(self, number: int, count: int, size: int = 1) -> None:
        work = self.works[self.consumer.tps[number]]
        for _ in range(count):
            work.undone -= 1
            work.bytes -= size
            self.share.remove(size, work)

    def poll(self) -> list[int]:
        self.share.apportion(self.works)
        return self.consumer.paused


def test_one_partition_has_it_all() -> None:
    bench = Bench(1, 100)
    assert bench.poll() == []
    assert bench.share.chunk == 50
    bench.add(0, 49)
    assert bench.poll() == []
    bench.add(0, 1)
    assert bench.poll() == [0]
    bench.remove(0, 25)
    assert bench.consumer.paused == [0], "not before half"
    bench.remove(0, 1)
    assert bench.consumer.paused == []


def test_a_slow_partition_is_paused_alone() -> None:
    bench = Bench(4, 400)
    bench.add(2, 60)
    assert bench.poll() == [2]
    assert bench.share.chunk == 50


def test_at_the_bound_all_are_paused_and_go_on_at_half() -> None:
    bench = Bench(3, 96)
    bench.add(0, 96)
    assert bench.poll() == [0, 1, 2]
    bench.remove(0, 47)
    assert bench.consumer.paused == [0, 1, 2]
    bench.remove(0, 1)
    assert bench.consumer.paused == [0], "which is still above its own share"
    assert bench.poll() == [0]


def test_bytes_count_too() -> None:
    bench = Bench(2, 1000, 1000)
    bench.add(0, 1, size=300)
    assert bench.poll() == [0]
    bench.add(1, 1, size=800)
    assert bench.poll() == [0, 1]
    bench.remove(1, 1, size=800)
    assert bench.poll() == [0]


def test_a_record_that_is_not_done_for_long_stops_its_partition() -> None:
    bench = Bench(1, 100)
    bench.add(0, 1)
    work = bench.works[bench.consumer.tps[0]]
    for _ in range(SPAN_FACTOR * 100 - 2):
        bench.add(0, 1)
        bench.remove(0, 1)
        work.offsets.finish(bench.next_offset - 1)
    assert bench.poll() == []
    bench.add(0, 1)
    assert bench.poll() == [0]
    work.offsets.finish(0)
    bench.remove(0, 1)
    assert bench.consumer.paused == []


def test_what_the_application_paused_stays_paused() -> None:
    bench = Bench(2, 64)
    bench.consumer.pause(bench.consumer.tps[1:])
    bench.add(0, 64)
    assert bench.poll() == [0, 1]
    bench.remove(0, 64)
    assert bench.consumer.paused == [1]
    bench.add(0, 64)
    bench.poll()
    bench.share.freeze()
    bench.remove(0, 64)
    assert bench.consumer.paused == [0, 1]
    bench.share.release_all()
    assert bench.consumer.paused == [1]


def test_partitions_that_are_gone_are_forgotten() -> None:
    bench = Bench(2, 64)
    bench.add(0, 64)
    bench.poll()
    tp = bench.consumer.tps[0]
    bench.consumer.states[tp] = TopicPartitionState(tp)
    bench.consumer.states.pop(bench.consumer.tps[1])
    assert bench.poll() == [0], "the new assignment, for all is full"
    bench.remove(0, 64)
    assert bench.poll() == []


def test_with_many_partitions_each_may_have_some() -> None:
    bench = Bench(500, 1000)
    assert bench.poll() == []
    assert bench.share.chunk == 16
    bench.add(7, 16)
    assert bench.poll() == [7]


def test_what_handlers_returned_counts_too() -> None:
    bench = Bench(2, 1000)
    bench.add(0, 1)
    assert bench.poll() == []
    bench.share.grow(bench.share._limits.bytes)
    assert bench.poll() == [0, 1]
