"""A replica's log when the disk fails, is full, or does not hold what was synced."""

from __future__ import annotations

import errno

import pytest

from oncelog_broker.log import checkpoint
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import (
    StorageError,
)
from oncelog_protocol.records.batch import (
    iter_headers,
)
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles, Operation
from support.logs import (
    DATA,
    NOW_MS,
    SMALL,
    TP,
    batch,
    fill,
    follower_batches,
    make_log,
    make_log_dir,
    offsets_in,
    reload_log,
    sync,
    values_in,
)


@pytest.mark.parametrize("leader", [True, False])
def test_an_append_error_stops_the_directory(leader: bool) -> None:
    # KAFKA-10778: nothing behind it may succeed.
    files = MemoryFiles()
    log = make_log(files)
    log.append_as_follower(follower_batches((0, 1, 0)))
    files.fail("append", f"{DATA}/{TP}", keep_bytes=10)

    def append() -> None:
        if leader:
            log.append_as_leader(batch(), 0)
        else:
            log.append_as_follower(follower_batches((1, 1, 0)))

    for _ in range(3):
        with pytest.raises(StorageError):
            append()
    assert not log.log_dir.online
    assert log.log_end_offset == 1
    with pytest.raises(StorageError):
        log.read(0, 100, upto=1)


def test_a_full_disk_refuses_writes_reads_on_and_recovers() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    log.log_dir.credit_bytes = 10**6
    files.set_free_bytes(30)
    with pytest.raises(StorageError):
        fill(log, 1)
    with pytest.raises(StorageError):
        fill(log, 1)
    assert (log.log_dir.online, log.log_dir.full) == (True, True)
    assert files.size(log.segments.active.path) == log.size_bytes
    assert len(values_in(log)) == 3
    files.heal()
    fill(log, 1)
    assert (log.log_dir.online, log.log_dir.full) == (True, False)
    sync(log)
    assert log.synced_offset == 4
    files.crash("none")
    assert len(values_in(reload_log(files))) == 4


def test_when_cutting_back_fails_too_the_directory_stops() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 1)
    log.log_dir.credit_bytes = 10**6
    files.fail("append", f"{DATA}/{TP}", error=errno.ENOSPC, keep_bytes=10)
    files.fail("truncate", f"{DATA}/{TP}")
    with pytest.raises(StorageError):
        fill(log, 1)
    assert not log.log_dir.online


def test_a_failed_epoch_change_is_undone_with_the_append() -> None:
    files = MemoryFiles()
    log = make_log(files)
    log.append_as_follower(follower_batches((0, 1, 1)))
    log.log_dir.credit_bytes = 10**6
    files.set_free_bytes(10)
    with pytest.raises(StorageError):
        log.append_as_follower(follower_batches((1, 1, 1), (2, 1, 5)))
    assert log.epochs.entries() == [(1, 0)]
    files.heal()
    log.append_as_follower(follower_batches((1, 1, 1), (2, 1, 5)))
    assert log.epochs.entries() == [(1, 0), (5, 2)]


def test_a_read_error_stops_the_directory() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    files.fail("read", f"{DATA}/{TP}")
    with pytest.raises(StorageError):
        log.read(0, 100, upto=3)
    assert not log.log_dir.online


def test_running_out_of_descriptors_does_not() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    sync(log)
    log.segments.active.close()
    files.fail("open", f"{DATA}/{TP}", error=errno.EMFILE, times=2)
    with pytest.raises(StorageError):
        log.read(0, 100, upto=3)
    assert log.log_dir.failure == ""
    assert offsets_in(log.read(0, 1, upto=3)) == [0]


def test_a_failed_sync_stops_the_directory_and_nothing_counts() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 2)
    files.fail("sync", f"{DATA}/{TP}")
    sync(log)
    assert not log.log_dir.online
    assert log.synced_offset == 0
    with pytest.raises(StorageError):
        fill(log, 1)
    sync(log)
    assert log.synced_offset == 0


@pytest.mark.parametrize("operation", ["rename", "truncate"])
def test_a_failed_truncation_stops_the_directory(operation: str) -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 40)
    files.fail(operation, f"{DATA}/{TP}")  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        log.truncate_to(6)
    assert not log.log_dir.online


def test_a_damaged_log_takes_no_writes_until_it_is_started_anew() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    sync(log)
    log.close()
    position = [p for p, _ in iter_headers(files.read_bytes(log.segments.active.path))][1]
    files.corrupt(log.segments.active.path, position + 8)
    loaded = reload_log(files, recovery_point=3)
    assert (loaded.needs_refetch, loaded.log_end_offset) == (True, 1)
    assert len(values_in(loaded)) == 1
    with pytest.raises(StorageError):
        loaded.append_as_leader(batch(), 1)
    with pytest.raises(StorageError):
        loaded.append_as_follower(follower_batches((1, 1, 1)))
    with pytest.raises(StorageError):
        loaded.truncate_to(0)
    assert loaded.apply_retention(NOW_MS + 10**12, 3) == 0
    loaded.truncate_fully_and_start_at(0)
    assert (loaded.needs_refetch, loaded.log_end_offset) == (False, 0)
    loaded.append_as_follower(follower_batches((0, 3, 2)))
    sync(loaded)
    assert loaded.synced_offset == 3


def test_internal_topics_may_use_half_of_what_is_kept_back() -> None:
    files = MemoryFiles(total_bytes=1_000_000)
    log_dir = make_log_dir(files)
    log_dir._headroom_bytes = 40_000
    plain = make_log(files, log_dir=log_dir)
    internal = make_log(
        files, log_dir=log_dir, topic_partition=TopicPartition("__consumer_offsets", 0)
    )
    files.set_free_bytes(30_000)
    log_dir.credit_bytes = 0
    with pytest.raises(StorageError):
        fill(plain, 1)
    fill(internal, 1)
    files.set_free_bytes(19_000)
    with pytest.raises(StorageError):
        fill(internal, 1)
    assert log_dir.online


def check_history(log: PartitionLog) -> None:
    """The log ends where its files end, and its history names the epoch of each batch in them."""
    assert log.log_end_offset == log.segments.active.next_offset
    files, found = log.log_dir.files, []
    for segment in log.segments:
        content = files.read_bytes(segment.path) if segment.size_bytes else b""
        for _, header in iter_headers(content[: segment.size_bytes]):
            found.append((header.base_offset, header.leader_epoch))
    assert found == [(base, log.epochs.epoch_at(base)) for base, _ in found]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("open", "truncation.json.tmp"),
        ("append", "truncation.json.tmp"),
        ("sync", "truncation.json.tmp"),
        ("rename", "truncation.json.tmp"),
        ("rename", "00000000000000000020.log"),
        ("rename", "00000000000000000010.log"),
        ("open", "00000000000000000000.log"),
        ("truncate", "00000000000000000000.log"),
        ("sync", "00000000000000000000.log"),
    ],
)
def test_after_a_failed_truncation_the_epoch_history_fits_the_batches(
    operation: Operation, name: str, error: int
) -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    for offset in range(30):
        if offset in (10, 20):
            log.roll()
        log.append_as_follower(follower_batches((offset, 1, offset)))
    sync(log)
    point = log.begin_checkpoint().recovery_point
    for segment in log.segments:
        segment.release()
    files.fail(operation, f"{DATA}/{TP}/{name}", error=error, times=None)
    with pytest.raises(StorageError):
        log.truncate_to(5)
    files.heal()
    # A checkpoint that was under way goes on.
    files.write_atomic_now(f"{DATA}/{TP}/{checkpoint.LEADER_EPOCH}", log.encode_epochs()[1])
    if log.log_dir.online:
        check_history(log)
        log.truncate_to(5)
        log.append_as_follower(follower_batches((5, 1, 40)))
        check_history(log)
        sync(log)
    log.close()
    check_history(reload_log(files, SMALL, recovery_point=point))
