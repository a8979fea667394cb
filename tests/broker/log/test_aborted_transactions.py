"""A log finds aborted ranges, keeps them on disk, and makes them anew when the disk disagrees."""

from __future__ import annotations

import errno
import random

import pytest

from oncelog_broker.log.aborted_transactions import (
    LOADED_MAX,
    READ_PER_PAGE,
    AbortedTransactions,
)
from oncelog_broker.log.batch_facts import MARKER_BYTES_MAX
from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.open_transactions import AbortedRow
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import CorruptMessageError
from oncelog_protocol.messages.fetch import AbortedTransaction
from oncelog_protocol.records.batch import CRC_OFFSET
from oncelog_protocol.records.control import ControlType, encode_marker
from oncelog_testing.memory.files import MemoryFiles
from support.logs import SMALL, make_log, reload_log, sync
from support.transactional_logs import TxnProducer, committed_values


def index_over(files: MemoryFiles) -> AbortedTransactions:
    return AbortedTransactions(files, "/log")


def row(pid: int, first: int, marker: int, stable: int | None = None) -> AbortedRow:
    return AbortedRow(pid, first, marker, marker + 1 if stable is None else stable)


def log_with_aborts(
    files: MemoryFiles, segments: int = 4
) -> tuple[PartitionLog, list[bytes | None]]:
    """Every other transaction is aborted; returns what was committed."""
    log, kept = make_log(files, SMALL), list[bytes | None]()
    producer = TxnProducer()
    number = 0
    while len(log.segments) < segments:
        value = b"%d " % number + b"." * 150
        producer.send(log, value)
        producer.end(log, commit=number % 2 == 0)
        if number % 2 == 0:
            kept.append(value)
        number += 1
        log.producers.committed(log.log_end_offset)
    sync(log)
    return log, kept


def txn_index_files(files: MemoryFiles, log: PartitionLog) -> list[str]:
    return [name for name in files.list_dir(log.directory) if name.endswith(".txnindex")]


# ---- asking


def test_ranges_that_touch_what_is_read_are_found() -> None:
    index = index_over(MemoryFiles("/log"))
    index.add(0, row(7, 2, 5, stable=1))
    index.add(0, row(8, 1, 9))
    index.add(10, row(7, 10, 12))

    def found(start: int, upto: int) -> list[tuple[int, int]]:
        return [(each.producer_id, each.first_offset) for each in index.find(start, upto)]

    assert found(0, 20) == [(7, 2), (8, 1), (7, 10)]
    assert found(6, 10) == [(8, 1)], "begun before, ended inside"
    assert found(3, 4) == [(7, 2), (8, 1)], "in the middle of both"
    assert found(0, 1) == []
    assert found(0, 2) == [(8, 1)]
    assert found(13, 20) == []
    assert found(10, 11) == [(7, 10)]
    assert index.find(2, 3)[0] == AbortedTransaction(7, 2)
    assert index.ranges(3, 10) == {7: [(2, 5)], 8: [(1, 9)]}
    assert len(index) == 3
    assert index


def test_the_search_ends_where_all_was_decided() -> None:
    """However many aborted ranges lie behind, none of them can begin below."""
    files = MemoryFiles("/log")
    index = index_over(files)
    index.add(0, row(7, 2, 5))
    for base in range(10, 400, 10):
        index.add(base, row(7, base, base + 5))
    index.persist()
    files.before_change = None
    read: list[str] = []
    files_read = files.read_bytes

    def read_bytes(path: str) -> bytes:
        read.append(path)
        return files_read(path)

    files.read_bytes = read_bytes  # type: ignore[method-assign]
    assert [each.first_offset for each in index.find(0, 6)] == [2]
    assert len(read) == 1


def test_pages_of_rows() -> None:
    index = index_over(MemoryFiles("/log"))
    for base in range(0, 50, 10):
        index.add(base, row(7, base, base + 1))
        index.add(base, row(8, base, base + 5))
    found, upto = index.page(1, 3)
    assert [each.marker_offset for each in found] == [1, 5, 11]
    assert upto == 15
    found, upto = index.page(upto, 100)
    assert ([each.marker_offset for each in found], upto) == ([15, 21, 25, 31, 35, 41, 45], -1)
    assert index.page(46, 10) == ([], -1)


def test_a_page_reads_few_files() -> None:
    index = index_over(MemoryFiles("/log"))
    for base in range(0, 400, 10):
        index.add(base, row(7, base, base + 5))
    index.persist()
    found, start = list[AbortedRow](), 0
    while start >= 0:
        page, start = index.page(start, 1000)
        assert len(page) <= READ_PER_PAGE + LOADED_MAX + 1
        found += page
    assert found == index.rows()


def test_random_ranges_are_found_as_by_looking_at_all() -> None:
    chance = random.Random(5)
    index = index_over(MemoryFiles("/log"))
    opened: dict[int, int] = {}
    rows: list[AbortedRow] = []
    for offset in range(600):
        pid = chance.randrange(6)
        if pid not in opened:
            opened[pid] = offset
        elif chance.random() < 0.5:
            first = opened.pop(pid)
            made = row(pid, first, offset, min([*opened.values(), offset + 1]))
            rows.append(made)
            index.add(offset // 50 * 50, made)
            if chance.random() < 0.1:
                index.persist()
    for _ in range(300):
        start = chance.randrange(600)
        upto = chance.randrange(start, 601)
        found = [(each.producer_id, each.first_offset) for each in index.find(start, upto)]
        assert found == [
            (each.producer_id, each.first_offset)
            for each in rows
            if each.marker_offset >= start and each.first_offset < upto
        ]
    assert index.rows() == rows


# ---- in memory and on disk


def test_memory_holds_rows_of_few_segments() -> None:
    index = index_over(MemoryFiles("/log"))
    for base in range(0, 400, 10):
        index.add(base, row(7, base, base + 5))
        index.persist()
    loaded = [rows for rows in index._segments if rows.loaded is not None]
    assert len(loaded) <= LOADED_MAX + 2
    assert len(index.rows()) == 40
    index.persist()
    assert len([rows for rows in index._segments if rows.loaded is not None]) <= LOADED_MAX + 2


def test_rows_that_could_not_be_written_stay_in_memory() -> None:
    """It exposes nothing when a file cannot be written (KAFKA-7866)."""
    files = MemoryFiles("/log")
    index = index_over(files)
    files.fail("append", error=errno.ENOSPC, times=None)
    for base in range(0, 400, 10):
        index.add(base, row(7, base, base + 5))
        index.persist()
    assert len(index.find(0, 500)) == 40


def test_what_is_written_goes_on_where_it_was() -> None:
    files = MemoryFiles("/log")
    index = index_over(files)
    index.add(0, row(7, 2, 5))
    index.persist()
    index.add(0, row(8, 1, 9))
    index.persist()
    index.persist()
    other = index_over(files)
    other.restore(index.encode(), [0])
    assert other.rows() == index.rows()


def test_a_snapshot_that_makes_no_sense_is_refused() -> None:
    index = index_over(MemoryFiles("/log"))
    with pytest.raises(CheckpointError):
        index.restore([[1, 2]], [0])
    with pytest.raises(CheckpointError):
        index.restore([["x", 2, 3, 4, 5]], [0])


def test_rows_that_cannot_be_had_are_an_error_and_not_none() -> None:
    index = index_over(MemoryFiles("/log"))
    index.restore([[0, 1, 5, 2, 3]], [0])
    with pytest.raises(CorruptMessageError):
        index.find(0, 10)
    assert index.find(4, 10) == [], "nobody needs them there"


# ---- with a log


@pytest.mark.parametrize(
    "damage",
    ["none", "gone", "empty", "torn", "other"],
)
def test_a_start_finds_what_the_files_lack_in_the_markers(damage: str) -> None:
    files = MemoryFiles()
    log, kept = log_with_aborts(files)
    rows = [each[:3] for each in log.aborted.rows()]
    log.close()
    names = txn_index_files(files, log)
    assert len(names) >= 3
    path = f"{log.directory}/{names[0]}"
    data = files.read_bytes(path)
    if damage != "none":
        files.remove(path)
    if damage in ("empty", "torn", "other"):
        file = files.open(path, create=True)
        torn = bytes([*data[:-3], *b"\0\0\0"]) if damage == "torn" else b""
        other = files.read_bytes(f"{log.directory}/{names[1]}") if damage == "other" else b""
        file.append([torn or other or b""])
        file.close()
    end = log.log_end_offset
    for again in (
        reload_log(files, SMALL, recovery_point=end, clean=True),
        reload_log(files, SMALL, recovery_point=end),
    ):
        again.producers.committed(end)
        assert [each[:3] for each in again.aborted.rows()] == rows
        assert committed_values(again) == kept
        assert again.producers.contradiction() == ""
        assert again.producers._snapshots.newest == end, "the log was not read for it"


def test_a_rotten_marker_loses_no_row_that_is_made_anew() -> None:
    """One that passes for data would have what was aborted told to readers of committed records."""
    files = MemoryFiles()
    log, _ = log_with_aborts(files)
    rows = [each[:3] for each in log.aborted.rows()]
    segment = log.segments[0]
    _, _, marker = rows[0]
    assert log.segments.find(marker) is segment
    start, header = segment.header_at(marker)
    end = log.log_end_offset
    path, index_path = segment.path, f"{log.directory}/{txn_index_files(files, log)[0]}"
    log.close()
    for position in range(start + CRC_OFFSET, start + header.size_bytes):
        for bit in range(8):
            if files.exists(index_path):
                files.remove(index_path)
            files.corrupt(path, position, 1 << bit)
            again = reload_log(files, SMALL, recovery_point=end, clean=True)
            if not again.damage:
                with pytest.raises(CorruptMessageError):
                    again.aborted.find(0, end)
            files.corrupt(path, position, 1 << bit)
    again = reload_log(files, SMALL, recovery_point=end, clean=True)
    assert [each[:3] for each in again.aborted.rows()] == rows


def test_no_marker_is_larger_than_what_is_looked_at() -> None:
    largest = encode_marker(
        ControlType.ABORT,
        producer_id=2**63 - 1,
        producer_epoch=2**15 - 1,
        coordinator_epoch=2**31 - 1,
        timestamp_ms=2**62,
        first_offset=2**63 - 1,
    )
    assert len(largest) <= MARKER_BYTES_MAX


def test_without_any_snapshot_the_log_is_read() -> None:
    files = MemoryFiles()
    log, kept = log_with_aborts(files)
    rows = log.aborted.rows()
    for name in files.list_dir(log.directory):
        if name.endswith((".snapshot", ".txnindex")):
            files.remove(f"{log.directory}/{name}")
    again = reload_log(files, SMALL, recovery_point=log.log_end_offset)
    assert [each[:3] for each in again.aborted.rows()] == [each[:3] for each in rows]
    again.producers.committed(again.log_end_offset)
    assert committed_values(again) == kept


def test_rows_go_with_their_segments() -> None:
    files = MemoryFiles()
    log, kept = log_with_aborts(files, 6)
    log.producers.snapshot()
    count = len(log.aborted)
    border = log.segments[2].base_offset
    log.advance_log_start(border)
    assert log.apply_retention(2**50, border)
    assert 0 < len(log.aborted) < count
    assert all(int(name[:20]) >= border for name in txn_index_files(files, log))
    again = reload_log(files, SMALL, recovery_point=log.log_end_offset, log_start_offset=border)
    assert again.producers.contradiction() == ""
    left = committed_values(log)
    assert left == kept[-len(left) :]
    assert committed_values(again, upto=again.log_end_offset) == left


def test_a_cut_takes_the_markers_behind_it() -> None:
    files = MemoryFiles()
    log, _ = log_with_aborts(files, 5)
    log.producers.snapshot()
    markers = [each.marker_offset for each in log.aborted.rows()]
    for end in (markers[-1], markers[-3] + 1, markers[1], 3):
        log.truncate_to(end)
        rows = [each.marker_offset for each in log.aborted.rows()]
        assert rows == [marker for marker in markers if marker < log.log_end_offset]
        assert log.producers.contradiction() == ""
        bases = {segment.base_offset for segment in log.segments}
        assert {int(name[:20]) for name in txn_index_files(files, log)} <= bases
    log.truncate_fully_and_start_at(100)
    assert not log.aborted
    assert txn_index_files(files, log) == []


def test_segments_that_became_one_since_the_snapshot_are_read_again() -> None:
    index = index_over(MemoryFiles("/log"))
    for base in (0, 10, 20):
        index.add(base, row(7, base, base + 5))
    encoded = index.encode()
    files = MemoryFiles()
    log = make_log(files)
    producer = TxnProducer()
    for _ in range(3):
        producer.send(log, b"x")
        producer.end(log, commit=False)
    later = log.aborted
    later.restore([[0, 1, 1, 0, 1], [2, 1, 1, 2, 3], [4, 1, 1, 4, 5]], [0])
    assert [each[:3] for each in later.rows()] == [(7, 0, 1), (7, 2, 3), (7, 4, 5)]
    index.restore(encoded, [10, 20])
    assert [rows.base for rows in index._segments] == [10, 20]
