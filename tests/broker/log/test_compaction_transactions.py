"""Compaction and transactions: what was aborted goes, what tells so stays as long as it must."""

from __future__ import annotations

import random

import pytest

from oncelog_broker.log.cleaner import find_work
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.rewriting import AbortedRanges
from oncelog_protocol.records.batch import iter_headers, parse_header
from oncelog_protocol.records.decode import decode_batch
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.compaction import COMPACTED, append, clean, headers_in, make_cleaner
from support.logs import NOW_MS, make_log, reload_log, sync, topic_config
from support.transactional_logs import TxnProducer, committed_values, txn_batch

KEEP_NOTHING = topic_config(
    cleanup_policy="compact",
    segment_bytes=2048,
    index_interval_bytes=300,
    min_cleanable_dirty_ratio=0,
    file_delete_delay_ms=0,
    delete_retention_ms=0,
)


def fill_up(log: PartitionLog) -> None:
    """Seal what is there: the active segment is not compacted."""
    append(log, (b"filler", b"." * 1500))
    append(log, (b"filler", b"." * 1500))


def markers_in(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in headers_in(log) if header.is_control]


def newest_committed(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """Key by key, as a reader of committed records that starts now finds it."""
    newest: dict[bytes | None, bytes | None] = {}
    ranges = AbortedRanges(log.aborted.ranges(0, log.log_end_offset))
    position = log.log_start_offset
    while position < log.log_end_offset:
        data = memoryview(log.read(position, 1 << 20, upto=log.log_end_offset))
        for start, header in iter_headers(data):
            position = header.next_offset
            if header.is_control or ranges.hold(header) or not header.record_count:
                continue
            columns = decode_batch(data[start : start + header.size_bytes])
            newest.update(zip(columns.keys or [], columns.values, strict=True))
    return {key: value for key, value in newest.items() if value is not None}


def test_an_aborted_value_is_nobodys_newest() -> None:
    log = make_log(MemoryFiles(), COMPACTED)
    append(log, (b"k", b"old"))
    producer = TxnProducer()
    producer.send(log, b"aborted", keys=[b"k"])
    producer.end(log, commit=False)
    fill_up(log)
    log.producers.committed(log.log_end_offset)
    before = newest_committed(log)
    assert before[b"k"] == b"old"
    assert clean(log)
    assert newest_committed(log) == before
    assert b"aborted" not in [v for v in committed_values(log, []) if v]
    assert log.producers.contradiction() == ""


def test_nothing_behind_an_undecided_transaction_is_compacted() -> None:
    log = make_log(MemoryFiles(), COMPACTED)
    append(log, (b"k", b"1"))
    producer = TxnProducer()
    producer.send(log, b"2", keys=[b"k"])
    fill_up(log)
    sync(log)
    assert find_work(log, log.log_end_offset, NOW_MS) is None
    producer.end(log, commit=True)
    sync(log)
    assert find_work(log, log.log_end_offset, NOW_MS) is None, "its marker is not committed"
    log.producers.committed(log.log_end_offset)
    assert find_work(log, log.log_end_offset, NOW_MS) is not None
    assert clean(log)
    assert newest_committed(log)[b"k"] == b"2"


def test_a_marker_stays_while_data_of_its_transaction_does() -> None:
    """Else who reads the log from its start would find the transaction open for ever."""
    clock = ManualClock(NOW_MS)
    files = MemoryFiles()
    log = make_log(files, KEEP_NOTHING)
    log.log_dir.clock = clock
    producer = TxnProducer()
    producer.send(log, b"stays", keys=[b"k"])
    producer.end(log, commit=True)
    producer.send(log, b"later", keys=[b"other"])
    producer.end(log, commit=True)
    fill_up(log)
    log.producers.committed(log.log_end_offset)
    for _ in range(3):
        fill_up(log)
        clean(log, config=KEEP_NOTHING)
        assert markers_in(log) == [1, 3]
    append(log, (b"k", b"newer"))
    fill_up(log)
    for _ in range(3):
        fill_up(log)
        clean(log, config=KEEP_NOTHING)
    assert markers_in(log) == [3], "nothing of the first is left"
    assert log.producers.contradiction() == ""


def test_a_marker_without_data_goes_after_a_while_and_its_range_with_it() -> None:
    """A range without its marker would have readers drop the producer's later records."""
    files = MemoryFiles()
    log = make_log(files, KEEP_NOTHING)
    producer = TxnProducer()
    for number in range(6):
        producer.send(log, b"aborted %d" % number, keys=[b"k"])
        producer.end(log, commit=False)
    producer.send(log, b"good", keys=[b"k"])
    producer.end(log, commit=True)
    fill_up(log)
    log.producers.committed(log.log_end_offset)
    log.producers.snapshot()
    for _ in range(3):
        fill_up(log)
        clean(log, config=KEEP_NOTHING)
    assert markers_in(log) == [13]
    assert log.aborted.rows() == []
    assert b"good" in committed_values(log, upto=log.log_end_offset)
    again = reload_log(files, KEEP_NOTHING, recovery_point=log.log_end_offset)
    assert again.aborted.rows() == []
    assert again.producers.contradiction() == ""
    assert b"good" in committed_values(again, upto=again.log_end_offset)


def test_a_young_marker_stays_for_readers_that_have_seen_the_data() -> None:
    clock = ManualClock(NOW_MS)
    log = make_log(MemoryFiles(), COMPACTED)
    log.log_dir.clock = clock
    producer = TxnProducer()
    producer.send(log, b"aborted", keys=[b"k"])
    producer.end(log, commit=False)
    producer.send(log, b"good", keys=[b"k"])
    producer.end(log, commit=True)
    fill_up(log)
    log.producers.committed(log.log_end_offset)
    assert clean(log)
    assert markers_in(log) == [1, 3]
    clock.advance(COMPACTED.delete_retention_ms + 1)
    log._clock = clock
    cleaner = make_cleaner(log)
    clean(log, cleaner)
    assert markers_in(log) == [3]


def test_the_last_that_is_known_of_a_producer_stays() -> None:
    """A follower that begins anew must know the epoch, or it would take a late batch."""
    log = make_log(MemoryFiles(), KEEP_NOTHING)
    log.append_marker(False, 7, 5, 0, 0)
    fill_up(log)
    log.producers.committed(log.log_end_offset)
    for _ in range(3):
        fill_up(log)
        clean(log, config=KEEP_NOTHING)
    assert markers_in(log) == [0]
    log.producers.expire(2**50, 1)
    for _ in range(3):
        fill_up(log)
        clean(log, config=KEEP_NOTHING)
    assert markers_in(log) == []


def test_a_marker_with_a_number_stays_beside_the_last_batch() -> None:
    """Without its number a late marker would count as one of the next transaction."""
    log = make_log(MemoryFiles(), KEEP_NOTHING)
    producer = TxnProducer(by_number=True)
    producer.send(log, b"1", keys=[b"k"])
    producer.end(log, commit=True)
    producer.end(log, commit=True)
    fill_up(log)
    log.producers.committed(log.log_end_offset)
    for _ in range(3):
        fill_up(log)
        clean(log, config=KEEP_NOTHING)
    assert markers_in(log)[-1] == 2
    assert log.producers.contradiction() == ""


def test_an_emptied_batch_of_an_open_epoch_keeps_its_marker() -> None:
    log = make_log(MemoryFiles(), KEEP_NOTHING)
    producer = TxnProducer()
    producer.send(log, b"1", keys=[b"k"])
    producer.end(log, commit=True)
    append(log, (b"k", b"2"))
    fill_up(log)
    log.producers.committed(log.log_end_offset)
    for _ in range(3):
        fill_up(log)
        clean(log, config=KEEP_NOTHING)
        assert log.producers.contradiction() == ""


def test_ranges_hold_what_lies_between_first_batch_and_marker() -> None:
    ranges = AbortedRanges({7: [(2, 5), (9, 12)]})

    def holds(pid: int, offset: int) -> bool:
        header = parse_header(txn_batch(producer=(pid, 0, 0)))
        return ranges.hold(header._replace(base_offset=offset))

    assert [offset for offset in range(15) if holds(7, offset)] == [2, 3, 4, 9, 10, 11]
    assert not holds(8, 3)
    plain = parse_header(txn_batch(producer=(7, 0, 0)))._replace(attributes=0, base_offset=3)
    assert not ranges.hold(plain)


@pytest.mark.parametrize("seed", range(12))
def test_readers_find_the_same_before_and_after(seed: int) -> None:
    chance = random.Random(seed)
    files = MemoryFiles()
    log = make_log(files, KEEP_NOTHING)
    producers = [TxnProducer(pid) for pid in range(3)]
    for _ in range(4):
        for _ in range(40):
            producer = chance.choice(producers)
            choice = chance.random()
            key = b"k%d" % chance.randrange(6)
            if choice < 0.5:
                value = b"%d" % chance.randrange(10**6) * chance.randrange(1, 12)
                producer.send(log, value, keys=[key])
            elif choice < 0.85:
                producer.end(log, commit=chance.random() < 0.6)
            else:
                append(log, (key, b"plain %d" % chance.randrange(1000)))
        log.producers.committed(chance.randrange(log.log_end_offset))
        stable = min(log.log_end_offset, log.producers.first_undecided)
        log.producers.committed(log.log_end_offset)
        if chance.random() < 0.5:
            log.producers.snapshot()
        for producer in producers:
            if log.producers.open_from(producer.producer_id) >= 0:
                producer.end(log, commit=chance.random() < 0.5)
        log.producers.committed(log.log_end_offset)
        assert stable <= log.log_end_offset
        before = newest_committed(log)
        clean(log, config=KEEP_NOTHING)
        assert newest_committed(log) == before
        assert log.producers.contradiction() == ""
        again = reload_log(files, KEEP_NOTHING, recovery_point=log.log_end_offset)
        assert again.producers.contradiction() == ""
        assert newest_committed(again) == before
    follower = make_log(MemoryFiles(), KEEP_NOTHING)
    while follower.log_end_offset < log.log_end_offset:
        data = log.read(follower.log_end_offset, 900, upto=log.log_end_offset)
        follower.append_as_follower(memoryview(bytearray(data)))
    follower.producers.committed(follower.log_end_offset)
    assert newest_committed(follower) == newest_committed(log)
    assert follower.producers.first_undecided == log.producers.first_undecided
