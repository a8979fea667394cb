"""Snapshot files are written, found again, and compared with the log that they belong to."""

from __future__ import annotations

import errno
import logging
import struct
import zlib

import msgpack
import pytest

from oncelog_broker.log.aborted_transactions import AbortedTransactions
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.producer_snapshots import (
    KEPT,
    SNAPSHOT_SUFFIX,
    ProducerSnapshots,
    finder,
    last_batch,
    replay,
    snapshot_path,
)
from oncelog_broker.log.producer_state import ProducerState
from oncelog_protocol.errors import StorageError
from oncelog_protocol.limits import BATCH_HEADER_BYTES
from oncelog_protocol.records.control import ControlType
from oncelog_testing.memory.files import MemoryFiles
from support.logs import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    batch,
    make_log,
    reload_log,
    sync,
)
from support.transactional_logs import TxnProducer


def write(log: PartitionLog, count: int, producer_id: int = 7, epoch: int = 0) -> None:
    """Write batches of one producer, in its next sequences."""
    for _ in range(count):
        known = log.producers.state.producers.get(producer_id)
        sequence = known.last_sequence + 1 if known else 0
        data = batch(b"x" * 100, producer=(producer_id, 0, sequence))
        log.append_as_leader(data, epoch)


def snapshots_of(log: PartitionLog) -> ProducerSnapshots:
    return ProducerSnapshots(log.log_dir.files, log.directory)


def loaded(
    log: PartitionLog, *, clean: bool = False, was_truncated: bool = False
) -> tuple[ProducerState, ProducerSnapshots]:
    state, snapshots = ProducerState(), snapshots_of(log)
    snapshots.load(list(log.segments), state, NOW_MS, clean=clean, was_truncated=was_truncated)
    return state, snapshots


def names(files: MemoryFiles) -> list[str]:
    return [name for name in files.list_dir(DIRECTORY) if name.endswith(SNAPSHOT_SUFFIX)]


def test_a_roll_writes_one_and_the_newest_two_are_kept() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    write(log, 30)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > KEPT + 1
    assert [int(name[:20]) for name in names(files)] == bases[-KEPT:]
    state, snapshots = loaded(log)
    assert snapshots.newest == bases[-1]
    assert state.producers[7].batches == log.producers.state.producers[7].batches


def test_two_of_what_is_synced_are_kept_beside_those_of_the_tail() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    write(log, 30)
    sync(log)
    write(log, 30)
    bases = [segment.base_offset for segment in log.segments]
    synced = [base for base in bases if base <= 30]
    assert len(bases) > len(synced) + KEPT
    assert [int(name[:20]) for name in names(files)] == synced[-KEPT:] + bases[-KEPT:]
    log.truncate_to(25)
    assert loaded(log)[0].producers[7].last_sequence == log.log_end_offset - 1


def test_without_any_the_whole_log_is_read() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    write(log, 30)
    for name in names(files):
        files.remove(f"{DIRECTORY}/{name}")
    state, snapshots = loaded(log)
    assert snapshots.newest == -1
    assert state.producers[7].batches == log.producers.state.producers[7].batches


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "other offset", "no msgpack"])
def test_one_that_does_not_hold_is_not_used_and_goes(damage: str) -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    write(log, 30)
    newest = snapshot_path(DIRECTORY, log.segments.active.base_offset)
    data = files.read_bytes(newest)
    older = files.read_bytes(f"{DIRECTORY}/{names(files)[0]}")
    content = {
        "empty": b"",
        "cut": data[:-1],
        "flipped": data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
        "other offset": older,
        "no msgpack": b"\xc1" * 20,
    }[damage]
    files.write_atomic_now(newest, content)
    state, snapshots = loaded(log)
    assert snapshots.newest == int(names(files)[0][:20])
    assert not files.exists(newest)
    assert state.producers[7].batches == log.producers.state.producers[7].batches


def test_one_of_other_records_at_the_same_offsets_is_not_used() -> None:
    files = MemoryFiles()
    log = make_log(files)
    write(log, 4, producer_id=7)
    log.close()
    stale = files.read_bytes(snapshot_path(DIRECTORY, 4))
    log.truncate_to(2)
    write(log, 2, producer_id=8, epoch=1)
    assert names(files) == []
    files.write_atomic_now(snapshot_path(DIRECTORY, 4), stale)  # as after a power cut
    state, _ = loaded(log)
    assert sorted(state.producers) == [7, 8]
    assert state.producers[7].last_sequence == 1
    assert names(files) == []


@pytest.mark.parametrize("was_truncated", [False, True])
def test_one_that_no_batch_vouches_for_counts_unless_the_log_was_emptied(
    was_truncated: bool,
) -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    write(log, 3)
    log.roll()
    sync(log)
    log.segments.drop_oldest(1)
    state, _ = loaded(log, was_truncated=was_truncated)
    assert (7 in state.producers) is not was_truncated


def test_after_a_clean_stop_the_log_is_not_read() -> None:
    files = MemoryFiles()
    log = make_log(files)
    write(log, 3)
    log.close()
    files.fail("open", log.segments.active.path)
    state, snapshots = loaded(log, clean=True)
    assert (state.producers[7].last_sequence, snapshots.newest) == (2, 3)


def test_what_lies_behind_a_cut_goes() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    write(log, 30)
    snapshots = snapshots_of(log)
    first, second = reversed(snapshots.offsets())
    snapshots.remove_above(second)
    assert len(names(files)) == 2
    snapshots.remove_above(second - 1)
    assert snapshots.offsets() == [first]


def test_a_disk_that_takes_none_costs_only_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    files = MemoryFiles()
    log = make_log(files)
    write(log, 3)
    files.fail("append", snapshot_path(DIRECTORY, 3), error=errno.ENOSPC)
    log.close()
    assert "producer_snapshot_not_written" in caplog.text
    assert loaded(log)[0].producers[7].last_sequence == 2


def test_the_batch_before_an_offset() -> None:
    log = make_log(MemoryFiles(), SMALL)
    write(log, 30)
    for offset in range(1, 31):
        header = last_batch(list(log.segments), offset)
        assert header is not None
        assert header.next_offset == offset
    assert last_batch(list(log.segments), 0) is None


def test_a_replay_ends_where_the_log_is_damaged() -> None:
    files = MemoryFiles()
    log = make_log(files)
    write(log, 6)
    size = log.size_bytes // 6
    files.corrupt(log.segments.active.path, 3 * size + 16)  # the magic
    state = ProducerState()
    assert log.segments.active.path in replay(list(log.segments), state, NOW_MS)
    assert state.producers[7].last_sequence == 2


@pytest.mark.parametrize("where", ["a marker", "before an open transaction"])
def test_a_log_whose_transactions_cannot_be_known_is_damaged(where: str) -> None:
    """Led, it would show what is not decided, or what was aborted. The bit that makes a commit of
    an abort is found by its checksum alone."""
    files = MemoryFiles()
    log = make_log(files)
    plain = TxnProducer(3)
    plain.send(log, b"first")
    plain.end(log, commit=True)
    aborts = TxnProducer(4)
    aborts.send(log, b"never seen")
    marker_at = log.size_bytes
    aborts.end(log, commit=False)
    marker_end = log.size_bytes
    TxnProducer(5).send(log, b"undecided")
    sync(log)
    if where == "a marker":
        marker = bytes(files.read_bytes(log.segments.active.path))[marker_at:marker_end]
        key = marker.rindex(struct.pack(">HH", 0, ControlType.ABORT))
        files.corrupt(log.segments.active.path, marker_at + key + 3, 1)
    else:
        files.corrupt(log.segments.active.path, BATCH_HEADER_BYTES + 3, 1)
    again = reload_log(files, recovery_point=log.log_end_offset)
    assert "CRC" in again.damage
    with pytest.raises(StorageError):
        TxnProducer(6).send(again, b"more")


def test_a_snapshot_of_before_transactions_is_taken_over() -> None:
    files = MemoryFiles()
    log = make_log(files)
    write(log, 3)
    last = last_batch(list(log.segments), 3)
    assert last is not None
    rows = [[7, 0, NOW_MS, [[0, 2, 0, 2, NOW_MS, 1]]]]
    state = msgpack.packb([1, rows])
    state = zlib.crc32(state).to_bytes(4, "big") + state
    file = files.open(snapshot_path(DIRECTORY, 3), create=True)
    file.append([msgpack.packb([1, 3, [last.leader_epoch, last.crc], state])])
    file.close()
    found, snapshots = loaded(log)
    assert snapshots.newest == 3
    assert found.producers[7].batches[0].content == 1, "from the file"


def test_one_whose_aborted_transactions_do_not_hold_is_not_used() -> None:
    files = MemoryFiles()
    log = make_log(files)
    producer = TxnProducer()
    producer.send(log, b"a")
    producer.end(log, commit=False)
    log.producers.snapshot()
    path = snapshot_path(DIRECTORY, 2)
    data = bytearray(files.read_bytes(path))
    data[-1] ^= 1
    files.remove(path)
    file = files.open(path, create=True)
    file.append([data])
    file.close()
    aborted = AbortedTransactions(files, DIRECTORY)
    state, snapshots = ProducerState(), snapshots_of(log)
    snapshots.load(list(log.segments), state, NOW_MS, aborted)
    assert snapshots.newest == -1
    assert [row[:3] for row in aborted.rows()] == [(7, 0, 1)], "read from the log"
    assert state.encode() == log.producers.state.encode()


def test_segments_are_found_by_offset() -> None:
    log = make_log(MemoryFiles(), SMALL)
    write(log, 30)
    segments = list(log.segments)
    find = finder(segments)
    for segment in segments:
        assert find(segment.base_offset) is segment
        assert find(segment.next_offset - 1) is segment
