"""One replica's log appends, reads, truncates, and knows how far it is durable."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from oncelog_protocol.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    InvalidRecordError,
    OffsetOutOfRangeError,
)
from oncelog_protocol.records.batch import (
    CRC_END,
    CRC_OFFSET,
    parse_header,
    verify_crc,
)
from oncelog_runtime.files import SystemFiles
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.logs import (
    NOW_MS,
    SMALL,
    batch,
    fill,
    follower_batches,
    make_log,
    make_log_dir,
    offsets_in,
    reload_log,
    sync,
    topic_config,
    values_in,
)

# ---- appending


def test_the_leader_stamps_offset_and_epoch_and_nothing_else() -> None:
    log = make_log(MemoryFiles())
    first, second = batch(b"a", b"b"), batch(b"c")
    assert log.append_as_leader(first, 3)[:2] == (0, 1)
    result = log.append_as_leader(second, 3)
    assert (result.base_offset, result.last_offset, result.record_count) == (2, 2, 1)
    assert (result.max_timestamp, result.log_append_time_ms) == (NOW_MS, -1)
    assert result.size_bytes == len(second)
    header = parse_header(second)
    assert (header.base_offset, header.leader_epoch) == (2, 3)
    verify_crc(second)
    assert bytes(log.read(0, 1 << 20, upto=3)) == bytes(first) + bytes(second)
    assert log.log_end_offset == 3
    assert log.latest_epoch() == 3
    assert log.size_bytes == len(first) + len(second)


def test_append_time_is_the_leaders_clock() -> None:
    log = make_log(MemoryFiles(), topic_config(message_timestamp_type="LogAppendTime"))
    data = batch(b"a", timestamps=5)
    result = log.append_as_leader(data, 0)
    assert (result.max_timestamp, result.log_append_time_ms) == (NOW_MS, NOW_MS)
    verify_crc(data)
    assert parse_header(data).max_timestamp == NOW_MS


def test_a_refused_batch_changes_nothing() -> None:
    log = make_log(MemoryFiles())
    data = batch(b"a")
    data[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        log.append_as_leader(data, 4)
    assert (log.log_end_offset, log.latest_epoch(), log.size_bytes) == (0, -1, 0)


def test_an_older_epoch_is_fenced() -> None:
    log = make_log(MemoryFiles())
    log.append_as_leader(batch(), 5)
    with pytest.raises(FencedLeaderEpochError):
        log.append_as_leader(batch(), 4)
    assert log.log_end_offset == 1


def test_segments_roll_by_age() -> None:
    clock = ManualClock(NOW_MS)
    files = MemoryFiles()
    log_dir = make_log_dir(files, clock=clock)
    log = make_log(files, topic_config(segment_ms=1000), log_dir=log_dir)
    log.append_as_leader(batch(), 0)
    clock.advance(999)
    log.append_as_leader(batch(), 0)
    assert len(log.segments) == 1
    clock.advance(1)
    log.append_as_leader(batch(), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    clock.set(0)  # a clock that goes back rolls nothing
    log.append_as_leader(batch(timestamps=0), 0)
    assert len(log.segments) == 2


def test_an_empty_active_segment_is_not_rolled() -> None:
    log = make_log(MemoryFiles())
    log.roll()
    assert len(log.segments) == 1


def test_the_follower_ignores_a_partial_batch() -> None:
    log = make_log(MemoryFiles())
    data = follower_batches((0, 2, 1), (2, 3, 1))
    assert log.append_as_follower(data[:40]) is None
    assert log.append_as_follower(memoryview(b"")) is None
    result = log.append_as_follower(data[:-1])
    assert result is not None
    assert log.log_end_offset == 2
    assert log.size_bytes == result.size_bytes


def test_the_follower_takes_batches_larger_than_its_limits() -> None:
    # KAFKA-9617: limits were lowered after the leader took the batch.
    log = make_log(MemoryFiles(), topic_config(max_message_bytes=100, segment_bytes=1024))
    data = follower_batches((0, 400, 0), (400, 400, 0))
    assert log.append_as_follower(data) is not None
    assert log.log_end_offset == 800
    assert len(log.segments) == 2


def test_the_follower_takes_all_or_nothing() -> None:
    log = make_log(MemoryFiles())
    data = follower_batches((0, 1, 1), (1, 1, 1))
    data[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        log.append_as_follower(data)
    with pytest.raises(OffsetOutOfRangeError):
        log.append_as_follower(follower_batches((0, 1, 1), (2, 1, 1)))
    assert (log.log_end_offset, log.latest_epoch()) == (0, -1)


def test_an_epoch_that_goes_back_is_refused() -> None:
    log = make_log(MemoryFiles())
    log.append_as_follower(follower_batches((0, 2, 5)))
    with pytest.raises(CorruptMessageError):
        log.append_as_follower(follower_batches((2, 1, 4)))
    assert log.log_end_offset == 2
    assert log.epochs.entries() == [(5, 0)]


def test_a_log_may_start_inside_a_batch() -> None:
    # KAFKA-6975: the leader's log start is 105, its batch goes from 100 to 109.
    files = MemoryFiles()
    log = make_log(files)
    log.truncate_fully_and_start_at(105)
    result = log.append_as_follower(follower_batches((100, 10, 2), (110, 1, 2)))
    assert result is not None
    assert (log.log_start_offset, log.log_end_offset) == (105, 111)
    assert values_in(log) == [b"%d" % offset for offset in range(105, 111)]
    assert offsets_in(log.read(107, 1, upto=111)) == [100]
    with pytest.raises(OffsetOutOfRangeError):
        log.read(104, 1, upto=111)
    # Only an empty log takes such a batch.
    with pytest.raises(OffsetOutOfRangeError):
        log.append_as_follower(follower_batches((105, 10, 2)))
    sync(log)
    files.crash("none")
    assert values_in(reload_log(files, log_start_offset=105)) == [
        b"%d" % n for n in range(105, 111)
    ]


# ---- reading


def test_reads_go_on_with_few_files_open() -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    log_dir.pool._open_max = 4
    log = make_log(files, SMALL, log_dir=log_dir)
    fill(log, 100)
    sync(log)
    assert len(values_in(log)) == 100
    assert len(log_dir.pool) <= 4
    fill(log, 1)
    assert len(values_in(log)) == 101


# ---- cutting


def test_truncation_cleans_epochs_even_when_the_log_has_nothing_to_cut() -> None:
    # KAFKA-10706
    log = make_log(MemoryFiles())
    fill(log, 10, epoch=1)
    log.assign_epoch(5, 10)
    assert not log.truncate_to(10)
    assert log.epochs.entries() == [(1, 0)]


def test_a_sync_under_way_proves_nothing_of_what_was_cut() -> None:
    log = make_log(MemoryFiles())
    fill(log, 10)
    job = log.begin_sync()
    log.truncate_to(4)
    fill(log, 2)
    log.finish_sync(job)
    assert log.synced_offset == 0
    sync(log)
    assert log.synced_offset == 6


# ---- retention


def test_retention_by_size_keeps_what_is_not_committed() -> None:
    log = make_log(MemoryFiles(), topic_config(segment_bytes=1024, retention_bytes=2000))
    fill(log, 100)
    before = log.size_bytes
    assert log.apply_retention(NOW_MS, 0) == 0
    committed = log.segments[3].next_offset + 1
    freed = log.apply_retention(NOW_MS, committed)
    assert freed == before - log.size_bytes > 0
    assert log.log_start_offset == log.segments[0].base_offset
    assert log.log_start_offset <= committed
    log.apply_retention(NOW_MS, 100)
    assert 2000 <= log.size_bytes < 2000 + 1024
    assert len(values_in(log)) == 100 - log.log_start_offset


def test_retention_by_time_takes_the_active_segment_too() -> None:
    log = make_log(MemoryFiles(), topic_config(segment_bytes=1024, retention_ms=1000))
    fill(log, 50)
    assert log.apply_retention(NOW_MS + 1000, 50) == 0
    assert log.apply_retention(NOW_MS + 1001, 50) > 0
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (50, 50, 0)
    fill(log, 1)
    sync(log)
    assert log.synced_offset == 51


def test_a_timestamp_from_the_future_does_not_keep_a_segment() -> None:
    config = topic_config(retention_ms=1000, message_timestamp_after_max_ms=10**15)
    log = make_log(MemoryFiles(), config)
    log.append_as_leader(batch(timestamps=NOW_MS + 10**12), 0)
    assert log.apply_retention(NOW_MS + 1001, 1) > 0


def test_compacted_topics_lose_only_what_lies_below_the_start() -> None:
    config = topic_config(cleanup_policy="compact", retention_ms=0, retention_bytes=0)
    log = make_log(MemoryFiles(), config)
    for _ in range(3):
        log.append_as_leader(batch(b"v", keys=[b"k"]), 0)
        log.roll()
    assert log.apply_retention(NOW_MS + 10**9, 3) == 0
    log.advance_log_start(2)
    log.apply_retention(NOW_MS, 3)
    assert [segment.base_offset for segment in log.segments] == [2, 3]


# ---- timestamps and epochs


def test_epochs_end_where_the_next_begins() -> None:
    log = make_log(MemoryFiles())
    fill(log, 3, epoch=1)
    fill(log, 2, epoch=4)
    assert log.end_offset_for_epoch(1) == (1, 3)
    assert log.end_offset_for_epoch(2) == (1, 3)
    assert log.end_offset_for_epoch(4) == (4, 5)
    assert log.end_offset_for_epoch(0) == (0, 0)
    assert log.end_offset_for_epoch(5) == (-1, -1)


# ---- durability


def test_offsets_count_when_they_are_synced() -> None:
    log = make_log(MemoryFiles())
    told: list[int] = []
    log.tell_synced_to(told.append)
    fill(log, 3)
    assert (log.log_end_offset, log.synced_offset) == (3, 0)
    sync(log)
    assert (log.synced_offset, log.recovery_point, told) == (3, 3, [3])
    sync(log)
    assert told == [3]


def test_with_flush_interval_offsets_count_at_once() -> None:
    log = make_log(MemoryFiles(), topic_config(flush="interval"))
    fill(log, 3)
    assert (log.synced_offset, log.recovery_point) == (3, 0)
    sync(log)
    assert (log.synced_offset, log.recovery_point) == (3, 3)


def test_the_flush_setting_of_a_topic_can_change() -> None:
    log = make_log(MemoryFiles(), topic_config(flush="interval"))
    fill(log, 1)
    log.reconfigure(topic_config(flush="commit"))
    fill(log, 1)
    assert log.synced_offset == 1
    sync(log)
    assert log.synced_offset == 2
    log.reconfigure(topic_config(flush="interval"))
    fill(log, 1)
    assert log.synced_offset == 3


def test_names_of_new_segments_are_durable_before_offsets_in_them_count() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 40)
    sync(log)
    assert len(log.segments) > 3
    files.crash("none")
    loaded = reload_log(files, SMALL)
    assert len(values_in(loaded)) == 40


def test_over_real_files(tmp_path: object) -> None:
    files = SystemFiles()
    log_dir = make_log_dir(files, str(tmp_path))
    log = make_log(files, SMALL, log_dir=log_dir)
    fill(log, 100)
    sync(log)
    assert log.synced_offset == 100
    log.truncate_to(50)
    fill(log, 20, epoch=1)
    assert len(values_in(log)) == 70
    with pytest.raises(InvalidRecordError):
        log.append_as_leader(_two_counts(), 1)
    log.close()
    assert len(values_in(log)) == 70
    log.close()


def _two_counts() -> memoryview:
    """A batch whose header claims more records than its body has."""
    data = bytearray(batch(b"a", b"b"))
    data[57:61] = (3).to_bytes(4, "big")
    data[23:27] = (2).to_bytes(4, "big")
    data[CRC_OFFSET:CRC_END] = crc32c(bytes(data[CRC_END:])).to_bytes(4, "big")
    return memoryview(data)
