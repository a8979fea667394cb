"""A log is told as it lies on disk: its lists page by page, batches by walking, records never."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
from typing import Any

import pytest

from oncelog_broker.log import log_description
from oncelog_broker.log.log_description import describe_log
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import StorageError
from oncelog_protocol.messages.log_description import DescribeLogRequest, DescribeLogResponse
from oncelog_protocol.records.batch import iter_headers
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, batch, make_log, reload_log, sync, topic_config
from support.transactional_logs import TxnProducer

SMALL = topic_config(segment_bytes=1024, index_interval_bytes=200)


def filled(files: MemoryFiles, count: int = 40) -> PartitionLog:
    log = make_log(files, SMALL)
    for number in range(count):
        log.append_as_leader(batch(b"secret" * 10, timestamps=NOW_MS + number), number // 25)
    sync(log)
    return log


async def ask(log: PartitionLog, **request: Any) -> DescribeLogResponse:
    return await describe_log(log, DescribeLogRequest("orders", 0, **request))


def closed(log: PartitionLog) -> PartitionLog:
    """Only files have the indexes now."""
    for segment in log.segments:
        segment.close()
    return log


async def test_what_the_log_is() -> None:
    log = filled(MemoryFiles())
    log.advance_log_start(3)
    told = await ask(log)
    assert (told.topic, told.partition) == ("orders", 0)
    assert (told.log_start_offset, told.synced_offset, told.log_end_offset) == (3, 40, 40)
    assert (told.size_bytes, told.is_damaged) == (log.size_bytes, False)
    assert [each.base_offset for each in told.segments] == [s.base_offset for s in log.segments]
    assert sum(each.record_count for each in told.segments) == 40
    assert (told.segments[0].created_ms, told.segments[-1].max_timestamp) == (NOW_MS, NOW_MS + 39)
    assert [(each.leader_epoch, each.start_offset) for each in told.epochs] == [(0, 3), (1, 25)]
    assert (told.segments[-1].first_epoch, told.segments[-1].last_epoch) == (1, 1)
    assert (told.aborted, told.next_offset, told.batches, told.index) == ([], -1, [], [])


async def test_index_entries_are_counted_in_memory_and_in_files() -> None:
    log = filled(MemoryFiles())
    open_ones = [each.index_entries for each in (await ask(log)).segments]
    assert min(open_ones) > 1
    assert [each.index_entries for each in (await ask(closed(log))).segments] == open_ones


async def test_the_number_of_records_is_not_known_where_compaction_takes_some() -> None:
    log = filled(MemoryFiles(), 3)
    log.reconfigure(topic_config(cleanup_policy="compact"))
    told = await ask(log)
    assert [each.record_count for each in told.segments] == [-1]


@pytest.mark.parametrize("from_files", [False, True])
async def test_batches_from_an_offset_to_the_end_of_the_log(from_files: bool) -> None:
    files = MemoryFiles()
    log = filled(files)
    if from_files:
        closed(log)
    found, offset = [], 0
    while offset >= 0:
        told = await ask(log, batches_from=offset, batch_count_max=3)
        assert 1 <= len(told.batches) <= 3
        assert len({each.segment for each in told.batches}) == 1
        assert told.unreadable is None
        found += told.batches
        offset = told.next_batch
    expected = [
        (segment.base_offset, position, header.base_offset, header.size_bytes)
        for segment in log.segments
        for position, header in iter_headers(files.read_bytes(segment.path))
    ]
    assert expected == [(b.segment, b.position, b.base_offset, b.size_bytes) for b in found]


@pytest.mark.parametrize("from_files", [False, True])
async def test_the_way_to_an_offset(from_files: bool) -> None:
    log = filled(MemoryFiles())
    if from_files:
        closed(log)
    segment = log.segments.find(30)
    told = await ask(log, at_offset=30, batch_count_max=500)
    floor = [entry for entry in told.index if entry.offset <= 30][-1]
    assert segment.base_offset <= floor.offset
    assert told.batches[0].base_offset == floor.offset, "from the last entry below it"
    assert told.batches[0].position == floor.position
    assert any(each.base_offset <= 30 <= each.last_offset for each in told.batches)
    assert floor.max_timestamp_before == NOW_MS + floor.offset - 1 or floor.position == 0


async def test_offsets_outside_of_the_log() -> None:
    log = filled(MemoryFiles())
    told = await ask(log, at_offset=40, batches_from=40, batch_count_max=5)
    assert (told.index, told.batches, told.next_batch) == ([], [], -1)
    log.log_dir.remove_later(log.drop_oldest(1), 0)
    told = await ask(log, batches_from=0, batch_count_max=1)
    assert told.batches[0].base_offset == log.segments[0].base_offset > 0


async def test_markers_aborted_ranges_and_snapshots() -> None:
    log = make_log(MemoryFiles(), SMALL)
    producer = TxnProducer()
    for number in range(12):
        producer.send(log, b"." * 100)
        producer.end(log, commit=number % 2 == 0)
        log.producers.committed(log.log_end_offset)
    sync(log)
    told = await ask(log, batches_from=0, batch_count_max=4)
    assert [each.marker for each in told.batches] == ["", "commit", "", "abort"]
    assert [each.transactional for each in told.batches] == [True] * 4
    assert {each.producer_id for each in told.batches} == {7}
    assert [(r.first_offset, r.marker_offset) for r in told.aborted] == [
        (first, first + 1) for first in range(2, 24, 4)
    ]
    assert told.snapshots
    assert max(told.snapshots) <= 24


async def test_lists_have_a_bound_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_description, "COUNT_MAX", 3)
    log = make_log(MemoryFiles(), SMALL)
    producer = TxnProducer()
    for number in range(30):
        log.assign_epoch(number // 5, log.log_end_offset)
        producer.send(log, b"." * 100, leader_epoch=number // 5)
        producer.end(log, commit=number % 2 == 0, leader_epoch=number // 5)
        log.producers.committed(log.log_end_offset)
    sync(log)
    segments, epochs, aborted = set(), set(), set()
    offset, pages = 0, 0
    while offset >= 0:
        told = await ask(log, from_offset=offset)
        for each in (told.segments, told.epochs, told.aborted):
            assert len(each) <= 3
        segments |= {each.base_offset for each in told.segments}
        epochs |= {each.leader_epoch for each in told.epochs}
        aborted |= {each.marker_offset for each in told.aborted}
        assert told.next_offset > offset or told.next_offset < 0
        offset, pages = told.next_offset, pages + 1
    assert pages > 2
    assert segments == {each.base_offset for each in log.segments}
    assert epochs == {epoch for epoch, _ in log.epochs.entries()}
    assert aborted == {row.marker_offset for row in log.aborted.rows()}


async def test_the_bytes_of_one_answer_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_description, "READ_BYTES_MAX", 1)
    log = filled(MemoryFiles())
    told = await ask(log, batches_from=20, batch_count_max=500)
    assert len(told.batches) == 1, "one at least, so that one can go on"
    monkeypatch.undo()
    many = make_log(MemoryFiles(), topic_config())
    for _ in range(log_description.BATCHES_MAX + 1):
        many.append_as_leader(batch(), 0)
    told = await ask(many, batches_from=0, batch_count_max=2**31 - 1)
    assert (len(told.batches), told.next_batch) == (500, 500)


async def test_a_lost_index_is_no_reason_to_read_the_whole_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = MemoryFiles()
    log = closed(filled(files))
    for name in files.list_dir(log.directory):
        if name.endswith(".index"):
            files.remove(f"{log.directory}/{name}")
    told = await ask(log)
    assert {each.index_entries for each in told.segments} == {-1}
    last = log.segments[1].next_offset - 1
    assert (await ask(log, batches_from=last, batch_count_max=1)).batches
    monkeypatch.setattr(log_description, "SKIPPED_BYTES_MAX", 0)
    told = await ask(log, batches_from=last, batch_count_max=1)
    assert (told.batches, told.next_batch) == ([], -1)
    assert told.unreadable == f"no index entry is near offset {last}"


async def test_damage_is_told_without_what_stands_there() -> None:
    files = MemoryFiles()
    log = closed(filled(files, 6))
    path = log.segments[0].path
    (position, _), *_ = list(iter_headers(files.read_bytes(path)))[2:]
    files.corrupt(path, position + 8)  # a length that leads into a record
    told = await ask(log, batches_from=0, batch_count_max=500)
    assert [each.base_offset for each in told.batches] == [0, 1]
    assert told.unreadable is not None
    assert "secret" not in told.unreadable
    assert "does not hold" in told.unreadable


async def test_no_record_is_told() -> None:
    log = filled(MemoryFiles())
    told = await ask(log, at_offset=30, batches_from=0, batch_count_max=500)
    assert "secret" not in repr(told)
    assert not any("crc" in name for name in _field_names(told))


def _field_names(message: Any) -> set[str]:
    names: set[str] = set()
    for field in dataclasses.fields(message):
        names.add(field.name)
        value = getattr(message, field.name)
        for item in value if isinstance(value, list) else [value]:
            if dataclasses.is_dataclass(item):
                names |= _field_names(item)
    return names


async def test_what_is_cut_meanwhile_is_read_again() -> None:
    log = filled(MemoryFiles())
    asked = asyncio.create_task(ask(log, batches_from=30, batch_count_max=500))
    await asyncio.sleep(0)
    log.truncate_to(20)
    told = await asked
    assert (told.log_end_offset, told.batches) == (20, [])
    assert max(each.next_offset for each in told.segments) == 20


async def test_a_segment_that_goes_meanwhile() -> None:
    log = filled(MemoryFiles())
    asked = asyncio.create_task(ask(log, batches_from=0, batch_count_max=1))
    await asyncio.sleep(0)
    log.log_dir.remove_later(log.drop_oldest(2), 0)
    told = await asked
    first = log.segments[0].base_offset
    assert (told.segments[0].base_offset, told.batches[0].base_offset) == (first, first)


async def test_a_disk_that_cannot_be_read() -> None:
    files = MemoryFiles()
    log = closed(filled(files))

    def refuse(path: str, *, create: bool = False) -> Any:
        raise OSError(errno.EIO, "unreadable", path)

    files.open = refuse  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="cannot be read"):
        await ask(log, batches_from=0, batch_count_max=1)
    assert log.log_dir.online, "a description says nothing of the disk"
    log.log_dir.fail("test", OSError(errno.EIO, "gone"))
    with pytest.raises(StorageError, match="offline"):
        await ask(log)


async def test_an_empty_log_and_one_that_was_loaded() -> None:
    files = MemoryFiles()
    told = await ask(make_log(files, SMALL), batches_from=0, at_offset=0, batch_count_max=5)
    (segment,) = told.segments
    assert (segment.size_bytes, segment.record_count, segment.index_entries) == (0, 0, 0)
    assert (segment.max_timestamp, told.batches, told.epochs) == (-1, [], [])
    files = MemoryFiles()
    log = filled(files)
    before = await ask(log)
    log.close()
    after = await ask(reload_log(files, SMALL, recovery_point=40, clean=True))
    assert [each.index_entries for each in after.segments] == [
        each.index_entries for each in before.segments
    ]
