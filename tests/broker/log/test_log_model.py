"""One replica's log against a list of batches: in whatever order things happen, both say the same.

The list knows neither segments nor indexes nor syncs. It only remembers which states the disk may
still hold after a power cut: those since everything was last synced.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import OffsetOutOfRangeError
from oncelog_protocol.records.batch import iter_headers, verify_crc
from oncelog_testing.memory.files import MemoryFiles
from support.logs import (
    NOW_MS,
    batch,
    follower_batches,
    make_log,
    reload_log,
    sync,
    topic_config,
)

SEGMENT_BYTES, RETENTION_BYTES = 1024, 2500
CONFIG = topic_config(
    segment_bytes=SEGMENT_BYTES, index_interval_bytes=200, retention_bytes=RETENTION_BYTES
)
COUNTS = st.integers(1, 4)
ANYWHERE = st.floats(0, 1)
"""An offset of the log: how far it lies between the log's start and its end."""


class Batch(NamedTuple):
    base: int
    end: int
    epoch: int
    stamp_ms: int
    data: bytes


class State(NamedTuple):
    """A log holds this; deleted batches stay in the list, as they do on the disk for some time."""

    start: int = 0
    end: int = 0
    batches: tuple[Batch, ...] = ()

    @property
    def visible(self) -> tuple[Batch, ...]:
        return tuple(each for each in self.batches if each.end > self.start)

    def between(self, start: int, end: int) -> State:
        """Return what is left of it, whole batches, when a log begins and ends there."""
        return State(start, end, tuple(each for each in self.batches if each.end <= end))

    def truncated(self, offset: int) -> State:
        if offset < self.start:
            return State(offset, offset)
        end = next((each.base for each in self.visible if each.end > offset), self.end)
        return self.between(min(self.start, end), end)

    def plus(self, batch: Batch) -> State:
        return State(self.start, batch.end, (*self.batches, batch))


class LogAgainstAList(RuleBasedStateMachine):
    """A leader, a follower, an operator and a power supply can do these things to a log."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.log = make_log(self.files, CONFIG)
        self.state = State()
        self.since_sync = [self.state]
        """The disk may hold any of these, from its start up to some batch."""
        self.checkpointed = 0

    def becomes(self, state: State) -> None:
        self.state = state
        self.since_sync.append(state)

    def offset(self, where: float) -> int:
        return self.state.start + round(where * (self.state.end - self.state.start))

    def epoch(self) -> int:
        last = self.state.batches[-1].epoch if self.state.batches else 0
        return max(self.log.latest_epoch(), last)

    def committed(self, where: float) -> int:
        return max(self.state.start, min(self.offset(where), self.log.synced_offset))

    # ---- what happens to it

    @rule(count=COUNTS, size=st.integers(0, 200), newer=st.integers(0, 2), late=st.integers(-9, 9))
    def a_leader_appends(self, count: int, size: int, newer: int, late: int) -> None:
        end, epoch = self.state.end, self.epoch() + newer
        values = [b"%d in %d" % (end + number, epoch) + b"." * size for number in range(count)]
        data = batch(*values, timestamps=NOW_MS + late)
        found = self.log.append_as_leader(data, epoch)
        assert (found.base_offset, found.last_offset) == (end, end + count - 1)
        verify_crc(data)
        self.becomes(self.state.plus(Batch(end, end + count, epoch, NOW_MS + late, bytes(data))))

    @rule(counts=st.lists(COUNTS, min_size=1, max_size=9), newer=st.integers(0, 2))
    def a_follower_appends(self, counts: list[int], newer: int) -> None:
        epoch, base, data = self.epoch() + newer, self.state.end, b""
        for count in counts:
            one = bytes(follower_batches((base, count, epoch)))
            data += one
            self.state = self.state.plus(Batch(base, base + count, epoch, NOW_MS, one))
            base += count
        first = self.log.log_end_offset
        found = self.log.append_as_follower(memoryview(data + data[:40]))  # the last is not whole
        assert found is not None
        assert (found.base_offset, found.last_offset) == (first, base - 1)
        assert found.record_count == base - first
        self.becomes(self.state)

    @rule()
    def a_segment_begins(self) -> None:
        self.log.roll()

    @rule(where=ANYWHERE)
    def it_is_truncated(self, where: float) -> None:
        offset, end = self.offset(where), self.state.end
        assert self.log.truncate_to(offset) == (offset < end)
        self.becomes(self.state.truncated(offset))

    @rule(below=st.integers(1, 9))
    def it_is_truncated_below_its_start(self, below: int) -> None:
        if offset := max(self.state.start - below, 0):
            assert self.log.truncate_to(offset)
            self.becomes(State(offset, offset))

    @rule(offset=st.integers(0, 99))
    def it_begins_anew(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        assert (self.log.size_bytes, self.log.latest_epoch()) == (0, -1)
        assert self.log.synced_offset == offset
        self.becomes(State(offset, offset))

    @rule(where=ANYWHERE)
    def records_are_deleted(self, where: float) -> None:
        offset = self.committed(where)
        assert self.log.advance_log_start(offset) == (offset > self.state.start)
        self.becomes(self.state.between(offset, self.state.end))
        self.a_checkpoint_is_written()

    @rule(where=ANYWHERE)
    def old_segments_are_deleted(self, where: float) -> None:
        committed, before = self.committed(where), self.log.size_bytes
        assert self.log.apply_retention(NOW_MS, committed) == before - self.log.size_bytes
        start = self.log.log_start_offset
        assert self.state.start <= start <= max(committed, self.state.start)
        oldest = self.log.segments[0]
        assert (
            self.log.size_bytes - oldest.size_bytes < RETENTION_BYTES
            or oldest.next_offset > committed
        )
        self.becomes(self.state.between(start, self.state.end))
        self.a_checkpoint_is_written()

    # ---- disks and starts

    @rule()
    def everything_is_synced(self) -> None:
        sync(self.log)
        assert self.log.synced_offset == self.log.recovery_point == self.state.end
        self.since_sync = [self.state]

    @rule()
    def a_checkpoint_is_written(self) -> None:
        said = self.log.begin_checkpoint()
        self.checkpointed = said.recovery_point
        self.log.remove_mark(said.truncation_mark)

    @rule()
    def it_is_stopped_cleanly(self) -> None:
        self.everything_is_synced()
        self.a_checkpoint_is_written()
        self.log.close()
        self.starts(clean=True)

    @rule()
    def the_process_is_killed(self) -> None:
        self.files.crash("all")
        self.starts()

    @rule()
    def the_power_is_cut(self) -> None:
        promised = self.log.synced_offset
        self.files.crash("none")
        before, self.log = self.log, self.reload()
        start, end = self.log.log_start_offset, self.log.log_end_offset
        assert end >= promised or before.log_start_offset == promised  # it had begun anew
        assert start <= max(before.log_start_offset, end)
        parts = [each.between(start, end) for each in self.since_sync]
        self.state = next(each for each in parts if each.visible == self.held())
        self.since_sync = [self.state]

    def reload(self, clean: bool = False) -> PartitionLog:
        return reload_log(
            self.files,
            CONFIG,
            recovery_point=self.checkpointed,
            log_start_offset=self.log.log_start_offset,
            clean=clean,
        )

    def starts(self, clean: bool = False) -> None:
        self.log = self.reload(clean)
        self.since_sync = [self.state]
        self.a_checkpoint_is_written()

    # ---- what is seen of it

    def held(self) -> tuple[Batch, ...]:
        """Return every batch that reads find, with the values that only a leader knows."""
        found, position = [], self.log.log_start_offset
        while position < self.log.log_end_offset:
            data = bytes(self.log.read(position, 1 << 20, upto=self.log.log_end_offset))
            assert data
            for at, header in iter_headers(data):
                one = data[at : at + header.size_bytes]
                first, position = header.base_offset, header.next_offset
                stamp_ms = header.max_timestamp
                found.append(Batch(first, position, header.leader_epoch, stamp_ms, one))
        return tuple(found)

    @invariant()
    def both_hold_the_same(self) -> None:
        log, state = self.log, self.state
        assert (log.log_start_offset, log.log_end_offset) == (state.start, state.end)
        assert self.held() == state.visible
        assert all(segment.size_bytes <= SEGMENT_BYTES for segment in log.segments)
        assert log.size_bytes == sum(segment.size_bytes for segment in log.segments)
        assert not log.damage
        begun: list[tuple[int, int]] = []
        for each in state.visible:
            if not begun or begun[-1][0] != each.epoch:
                begun.append((each.epoch, max(each.base, state.start)))
        # An epoch without records may be known at the end.
        assert [entry for entry in log.epochs.entries() if entry[1] < state.end] == begun

    @rule(where=ANYWHERE, upto=ANYWHERE, max_bytes=st.integers(0, 1500), one=st.booleans())
    def it_is_read(self, where: float, upto: float, max_bytes: int, one: bool) -> None:
        offset, state = self.offset(where), self.state
        bounds = [state.start, *(each.end for each in state.visible), state.end + 9]
        limit = bounds[round(upto * (len(bounds) - 1))]
        data = bytes(self.log.read(offset, max_bytes, upto=limit, min_one_batch=one))
        due = [each.data for each in state.visible if each.end > offset and each.end <= limit]
        assert b"".join(due).startswith(data)
        assert len(data) <= max(max_bytes, len(due[0]) if due and one else 0)
        assert bool(data) == bool(due and (one or len(due[0]) <= max_bytes))

    @rule(outside=st.sampled_from([-1, 1]), far=st.integers(1, 10**9))
    def it_is_read_outside(self, outside: int, far: int) -> None:
        offset = self.state.end + far if outside > 0 else self.state.start - far
        with pytest.raises(OffsetOutOfRangeError):
            self.log.read(offset, 100, upto=self.state.end)
        if outside > 0:
            with pytest.raises(OffsetOutOfRangeError):
                self.log.advance_log_start(offset)

    @rule(late=st.integers(-11, 11))
    def a_time_is_looked_up(self, late: int) -> None:
        sought = NOW_MS + late
        newer = (
            (each.stamp_ms, max(each.base, self.state.start), each.epoch)
            for each in self.state.visible
            if each.stamp_ms >= sought
        )
        assert self.log.offset_for_timestamp(sought) == next(newer, None)


TestLogAgainstAList = LogAgainstAList.TestCase
TestLogAgainstAList.settings = settings(
    stateful_step_count=30, max_examples=settings().max_examples * 2 // 5
)
