"""Replicas compact each for itself: elections, truncations, a replica that fetches all of it anew.

A model of one partition on three brokers, with the real logs and the real rules of divergence. What
is committed is noted, and whoever holds it must give the newest value of every key for ever.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from oncelog_broker.log.compaction import hole, is_hole
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.divergence import common_end, divergence
from oncelog_broker.replication.ports import FetchPosition
from oncelog_protocol.errors import OffsetOutOfRangeError
from oncelog_protocol.records.batch import iter_headers
from oncelog_testing.memory.files import MemoryFiles
from support.compaction import (
    COMPACTED,
    Kept,
    append,
    clean,
    headers_in,
    make_cleaner,
    records_in,
)
from support.logs import make_log, make_log_dir, sync


@dataclass
class Replica:
    """It is one broker's."""

    log: PartitionLog
    high_watermark: int = 0


@dataclass
class Model:
    """It is the partition, and what was promised of it."""

    replicas: list[Replica]
    draw: random.Random
    leader: int = 0
    epoch: int = 0
    in_sync: set[int] = field(default_factory=lambda: {0, 1})
    """Replica 2 comes and goes."""
    committed: dict[int, Kept] = field(default_factory=dict)

    @classmethod
    def of(cls, seed: int) -> Model:
        logs = []
        for _ in range(3):
            files = MemoryFiles("/data")
            logs.append(make_log(files, COMPACTED, log_dir=make_log_dir(files)))
        return cls([Replica(log) for log in logs], random.Random(seed))

    def produce(self) -> None:
        replica = self.replicas[self.leader]
        for _ in range(self.draw.randint(1, 6)):
            append(
                replica.log,
                *[
                    (b"k%d" % self.draw.randrange(6), self.draw.choice([None, b"v" * 40, b"w"]))
                    for _ in range(self.draw.randint(1, 3))
                ],
                epoch=self.epoch,
            )
        sync(replica.log)
        self.commit()

    def fetch(self, number: int, exchanges: int = 1) -> None:
        """A follower asks its leader so often."""
        follower, leader = self.replicas[number], self.replicas[self.leader]
        for _ in range(exchanges if number != self.leader else 0):
            log = follower.log
            position = FetchPosition(
                log.log_end_offset, self.epoch, log.latest_epoch(), log.log_start_offset
            )
            try:
                diverging = divergence(leader.log, position)
            except OffsetOutOfRangeError:
                log.truncate_fully_and_start_at(leader.log.log_start_offset)
                follower.high_watermark = leader.log.log_start_offset
                continue
            if diverging is not None:
                end = common_end(log, diverging)
                assert end >= follower.high_watermark, "cut into what is committed"
                log.truncate_to(end)
                continue
            data = leader.log.read(
                log.log_end_offset,
                self.draw.choice([1, 500, 1 << 20]),
                upto=leader.log.log_end_offset,
            )
            if data:
                log.append_as_follower(memoryview(data))
                sync(log)
            follower.high_watermark = max(
                follower.high_watermark, min(leader.high_watermark, log.log_end_offset)
            )
        self.commit()

    def commit(self) -> None:
        """The high watermark of the leader moves as far as all in sync hold its log."""
        leader = self.replicas[self.leader]
        ends = []
        for number in sorted(self.in_sync):
            log = self.replicas[number].log
            if log.latest_epoch() > self.epoch or (
                number != self.leader
                and divergence(
                    leader.log, FetchPosition(log.log_end_offset, self.epoch, log.latest_epoch())
                )
            ):
                return
            ends.append(log.log_end_offset)
        mark = min(ends)
        if mark > leader.high_watermark:
            for record in records_in(leader.log, leader.high_watermark):
                if record.offset < mark:
                    self.committed[record.offset] = record
            leader.high_watermark = mark

    def elect(self) -> None:
        """Elect one of those in sync, in a new epoch; its log is the truth now."""
        self.leader = self.draw.choice(sorted(self.in_sync))
        self.epoch += 1
        log = self.replicas[self.leader].log
        log.assign_epoch(self.epoch, log.log_end_offset)
        self.in_sync = {0, 1}

    def compact(self, number: int) -> None:
        replica = self.replicas[number]
        end = replica.log.log_end_offset
        clean(replica.log, make_cleaner(replica.log, high_watermark=replica.high_watermark))
        assert replica.log.log_end_offset == end

    def roll(self, number: int) -> None:
        self.replicas[number].log.roll()

    def begin_anew(self) -> None:
        """Replica 2 has lost its disk, or was away for long."""
        replica = self.replicas[2]
        if self.leader != 2:
            replica.log.truncate_fully_and_start_at(0)
            replica.high_watermark = 0

    def check(self) -> None:
        """All of them hold the same, whatever each has compacted."""
        for number in range(3):
            self.fetch(number, 10_000 if self._behind(number) else 3)
        leader = self.replicas[self.leader]
        newest = {self.committed[offset].key: self.committed[offset] for offset in self.committed}
        for replica in self.replicas:
            log = replica.log
            assert log.log_end_offset == leader.log.log_end_offset
            below = [r for r in records_in(log) if r.offset < leader.high_watermark]
            assert all(self.committed[record.offset] == record for record in below)
            assert {record.key: record for record in below} == newest
            written = [e for e in leader.log.epochs.entries() if e[1] < log.log_end_offset]
            assert [e for e in log.epochs.entries() if e[1] < log.log_end_offset] == written

    def _behind(self, number: int) -> bool:
        return self.replicas[number].log is not self.replicas[self.leader].log


@pytest.mark.parametrize("seed", range(16))
def test_elections_over_logs_that_are_compacted_apart(seed: int) -> None:
    model = Model.of(seed)
    for step in range(120):
        what = model.draw.random()
        if what < 0.3:
            model.produce()
        elif what < 0.6:
            model.fetch(model.draw.randrange(3), model.draw.randint(1, 4))
        elif what < 0.75:
            model.compact(model.draw.randrange(3))
        elif what < 0.85:
            model.roll(model.draw.randrange(3))
        elif what < 0.9:
            model.begin_anew()
        elif what < 0.95:
            model.elect()
        if step % 40 == 39:
            model.check()


def test_a_follower_whose_end_lies_in_a_hole_goes_on_there() -> None:
    leader = make_log(MemoryFiles("/data"), COMPACTED)
    for number in range(10):
        append(leader, (b"k", b"%d" % number))
    sync(leader)
    follower = make_log(MemoryFiles("/data"), COMPACTED)
    head = memoryview(leader.read(0, 1 << 20, upto=4))
    follower.append_as_follower(head)
    leader.roll()
    clean(leader)
    assert is_hole(headers_in(leader)[0])
    data = memoryview(leader.read(4, 1 << 20, upto=10))
    assert next(iter_headers(data))[1].base_offset == 0
    taken = follower.append_as_follower(data)
    assert taken is not None
    assert (taken.base_offset, taken.last_offset) == (4, 9)
    assert [header.base_offset for header in headers_in(follower)] == [0, 1, 2, 3, 4, 9]
    assert [r.offset for r in records_in(follower)] == [0, 1, 2, 3, 9]
    assert follower.epochs.entries() == leader.epochs.entries()
    assert follower.size_bytes == sum(segment.size_bytes for segment in follower.segments)


def test_only_a_hole_may_begin_below_the_end() -> None:
    follower = make_log(MemoryFiles("/data"), COMPACTED)
    append(follower, (b"k", b"1"))
    append(follower, (b"k", b"2"))
    other = make_log(MemoryFiles("/data"), COMPACTED)
    append(other, (b"k", b"1"), (b"k", b"2"), (b"k", b"3"))
    with pytest.raises(OffsetOutOfRangeError):
        follower.append_as_follower(memoryview(other.read(0, 1 << 20, upto=3)))
    with pytest.raises(OffsetOutOfRangeError):
        follower.append_as_follower(memoryview(hole(0, 2, 0, -1)))
    with pytest.raises(OffsetOutOfRangeError):
        follower.append_as_follower(memoryview(hole(3, 9, 0, -1)))
    follower.append_as_follower(memoryview(hole(1, 9, 0, -1)))
    assert follower.log_end_offset == 9


def test_an_empty_follower_takes_holes_as_they_come() -> None:
    leader = make_log(MemoryFiles("/data"), COMPACTED)
    for number in range(50):
        append(leader, (b"k%d" % (number % 3), b"v" * 40), epoch=number // 10)
    sync(leader)
    leader.roll()
    clean(leader)
    follower = make_log(MemoryFiles("/data"), COMPACTED)
    while follower.log_end_offset < leader.log_end_offset:
        data = leader.read(follower.log_end_offset, 100, upto=leader.log_end_offset)
        follower.append_as_follower(memoryview(data))
    assert records_in(follower) == records_in(leader)
    assert headers_in(follower) == headers_in(leader)
    assert follower.epochs.entries() == leader.epochs.entries()


def test_who_is_cut_below_what_it_has_compacted_begins_anew() -> None:
    """An unclean election has lost the record that another gave way to."""
    log = make_log(MemoryFiles("/data"), COMPACTED)
    append(log, (b"k", b"old"))
    append(log, (b"other", b"v"))
    append(log, (b"k", b"new"))
    log.roll()
    clean(log)
    assert [r.offset for r in records_in(log)] == [1, 2]
    log.truncate_to(2)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.clean.upto == 0
