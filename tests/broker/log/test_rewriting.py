"""A compaction has two halves, which go slice by slice."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from oncelog_broker.log.compaction import hole
from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.key_map import KeyMap
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.rewriting import (
    NO_TOMBSTONE,
    SYNC_BYTES,
    Known,
    Rule,
    SourceSegment,
    Written,
    read_keys,
    rewrite,
)
from oncelog_broker.log.segment import Segment
from oncelog_protocol.records.batch import CRC_OFFSET, EPOCH_OFFSET, CorruptBatchError
from oncelog_testing.memory.files import MemoryFiles
from support.compaction import append
from support.logs import NOW_MS, make_log, sync, topic_config

BIG = topic_config(cleanup_policy="compact")


def filled(files: MemoryFiles, count: int = 1000, value: bytes = b"v" * 100) -> PartitionLog:
    log = make_log(files, BIG)
    for number in range(count):
        append(log, (b"k%d" % (number % 10), value), epoch=number * 2 // count)
    log.roll()
    sync(log)
    return log


def rule_of(log: PartitionLog, keys: KeyMap, tombstones_below: int = 0) -> Rule:
    return Rule(
        keys.newest, log.log_end_offset, tombstones_below, EpochHistory(log.epochs.entries()), 0
    )


def target(log: PartitionLog) -> Segment:
    segment = Segment.cleaned(log.log_dir.pool, log.directory, 0, 4096)
    segment.create()
    return segment


def test_keys_are_read_from_where_the_dirty_part_begins() -> None:
    files = MemoryFiles("/data")
    log = filled(files, 100)
    known = Known(KeyMap(1 << 20), 95)
    read = sum(read_keys(files, [SourceSegment.of(log.segments[0])], known))
    assert read == log.segments[0].size_bytes
    assert dict(known.keys.newest) == {b"k%d" % n: 90 + n for n in range(5, 10)}
    assert known.upto == 100


def test_a_full_map_ends_the_first_half() -> None:
    files = MemoryFiles("/data")
    log = filled(files, 100)
    known = Known(KeyMap(500), 0)
    list(read_keys(files, [SourceSegment.of(log.segments[0])], known))
    assert known.upto == len(known.keys) == 2


def test_a_slice_is_small() -> None:
    files = MemoryFiles("/data")
    log = filled(files, 2000)
    sources = [SourceSegment.of(log.segments[0])]
    known = Known(KeyMap(1 << 20), 0)
    slices = list(read_keys(files, sources, known))
    assert len(slices) > 5
    assert sum(slices) == log.segments[0].size_bytes
    segment, written = target(log), Written()
    slices = list(rewrite(files, sources, rule_of(log, known.keys), segment, written, NOW_MS))
    assert len(slices) > 5
    assert sum(slices) == log.segments[0].size_bytes + segment.size_bytes
    assert (segment.base_offset, segment.next_offset) == (0, 2000)
    assert (written.changed, written.records) == (True, 1990)
    assert files.size(segment.path) == segment.size_bytes


def test_nothing_to_do_writes_the_same_bytes() -> None:
    files = MemoryFiles("/data")
    log = filled(files, 10)
    segment, written = target(log), Written()
    source = SourceSegment.of(log.segments[0])
    list(rewrite(files, [source], rule_of(log, KeyMap(1)), segment, written, NOW_MS))
    assert written == Written(changed=False, first_tombstone=NO_TOMBSTONE, records=0)
    assert files.read_bytes(segment.path) == files.read_bytes(source.path)


def test_the_first_tombstone_that_is_left_is_known() -> None:
    files = MemoryFiles("/data")
    log = make_log(files, BIG)
    append(log, (b"a", None), (b"b", b"v"), (b"c", None))
    append(log, (b"d", None))
    log.roll()
    keys = KeyMap(1 << 20)
    source = SourceSegment.of(log.segments[0])
    for below, first in ((0, 0), (1, 2), (3, 3), (4, NO_TOMBSTONE)):
        segment, written = target(log), Written()
        list(rewrite(files, [source], rule_of(log, keys, below), segment, written, NOW_MS))
        assert written.first_tombstone == first
        segment.remove()


@pytest.mark.parametrize(
    "position",
    [0, 8, EPOCH_OFFSET + 3, CRC_OFFSET, 23, 60, 80, 160],
)
def test_whatever_does_not_hold_is_damage(position: int) -> None:
    files = MemoryFiles("/data")
    log = filled(files, 20)
    source = SourceSegment.of(log.segments[0])
    start = log.segments[0].header_at(7)[0]
    files.corrupt(source.path, start + position)
    with pytest.raises(CorruptBatchError, match="at byte|its history says"):
        list(rewrite(files, [source], rule_of(log, KeyMap(1)), target(log), Written(), NOW_MS))


@pytest.mark.parametrize("place", ["a key's older value", "its newest value", "a hole"])
def test_every_flipped_bit_is_damage_before_anything_is_dropped_or_copied(place: str) -> None:
    """A record that rotted must not supersede a sound one, nor get a checksum that holds."""
    files = MemoryFiles("/data")
    log = make_log(files, BIG)
    append(log, (b"k", b"old"))
    append(log, (b"k", b"new"))
    log.append_as_follower(memoryview(hole(2, 4, 0, NOW_MS)))
    append(log, (b"other", b"v"))
    log.roll()
    sync(log)
    offset = ["a key's older value", "its newest value", "a hole"].index(place)
    start, header = log.segments[0].header_at(offset)
    source = SourceSegment.of(log.segments[0])
    for position in range(start, start + header.size_bytes):
        for bit in range(8):
            files.corrupt(source.path, position, 1 << bit)
            known, segment = Known(KeyMap(1 << 20), 0), target(log)
            in_epoch = EPOCH_OFFSET <= position - start < EPOCH_OFFSET + 4
            with nullcontext() if in_epoch else pytest.raises(CorruptBatchError):
                list(read_keys(files, [source], known))
            rule = rule_of(log, known.keys)
            with pytest.raises(CorruptBatchError):
                list(rewrite(files, [source], rule, segment, Written(), NOW_MS))
            files.corrupt(source.path, position, 1 << bit)
            segment.remove()
    known, segment, written = Known(KeyMap(1 << 20), 0), target(log), Written()
    list(read_keys(files, [source], known))
    list(rewrite(files, [source], rule_of(log, known.keys), segment, written, NOW_MS))
    assert written.records == 1, "sound again"


def test_a_segment_that_is_too_short_is_damage() -> None:
    files = MemoryFiles("/data")
    log = filled(files, 20)
    source = SourceSegment.of(log.segments[0])
    with pytest.raises(CorruptBatchError, match="ends at offset 20, not 21"):
        list(read_keys(files, [source._replace(next_offset=21)], Known(KeyMap(1 << 20), 0)))
    start = log.segments[0].header_at(19)[0]
    files.open(source.path).truncate(start + 10)
    with pytest.raises(CorruptBatchError, match="header"):
        list(read_keys(files, [source], Known(KeyMap(1 << 20), 0)))


def test_what_is_written_is_synced_by_and_by() -> None:
    files = MemoryFiles("/data")
    log = make_log(files, BIG)
    for number in range(30):
        append(log, (b"k%d" % number, b"v" * 900_000))
    log.roll()
    sync(log)
    segment = target(log)
    source = SourceSegment.of(log.segments[0])
    for _ in rewrite(files, [source], rule_of(log, KeyMap(1)), segment, Written(), NOW_MS):
        unsynced = files.size(segment.path) - len(files.durable_bytes(segment.path))
        assert unsynced < SYNC_BYTES + 1_500_000
    assert segment.size_bytes > 3 * SYNC_BYTES
