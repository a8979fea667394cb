"""A log and its producers: repeats, cuts, lives, deletions [K1] [K8] [I14]."""

from __future__ import annotations

import asyncio
import random

import pytest

from oncelog_broker.log import log_producers
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.producer_snapshots import decode, snapshot_path
from oncelog_broker.log.producer_state import BATCHES_MAX, ProducerState
from oncelog_broker.log.safeguards import SAFE, LogSafeguards
from oncelog_protocol.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    OutOfOrderSequenceNumberError,
    ThrottlingQuotaExceededError,
)
from oncelog_protocol.records.batch import parse_header
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.compaction import COMPACTED, clean, headers_in
from support.logs import (
    DATA,
    NOW_MS,
    SMALL,
    TP,
    batch,
    catch_up,
    make_log,
    make_log_dir,
    reload_log,
    sync,
    topic_config,
    values_in,
)
from support.transactional_logs import txn_batch
from unsafe.log import without


class Producer:
    """It is a client that remembers all it sent."""

    def __init__(self, producer_id: int = 7, epoch: int = 0) -> None:
        self.producer_id, self.epoch, self.sequence = producer_id, epoch, 0
        self.sent: list[bytes] = []

    def next(self, count: int = 1) -> memoryview:
        values = [b"%d/%d " % (self.producer_id, self.sequence + n) * 15 for n in range(count)]
        data = batch(*values, producer=(self.producer_id, self.epoch, self.sequence))
        self.sequence += count
        self.sent.append(bytes(data))
        return data

    def again(self, number: int) -> memoryview:
        return memoryview(bytearray(self.sent[number]))

    def write(self, log: PartitionLog, count: int, epoch: int = 0) -> None:
        for _ in range(count):
            assert not log.append_as_leader(self.next(), epoch).repeated


def state_of(log: PartitionLog) -> dict[int, tuple[int, list[tuple[int, ...]]]]:
    """Return what the log knows, without the times."""
    return {
        producer_id: (entry.epoch, [each[:4] for each in entry.batches])
        for producer_id, entry in log.producers.state.producers.items()
    }


def test_a_repeat_is_answered_and_not_appended() -> None:
    log = make_log(MemoryFiles())
    producer = Producer()
    first = log.append_as_leader(producer.next(2), 0)
    producer.write(log, BATCHES_MAX - 1)
    end, size = log.log_end_offset, log.size_bytes
    again = log.append_as_leader(producer.again(0), 0)
    assert again == first._replace(repeated=True)
    assert (log.log_end_offset, log.size_bytes) == (end, size)
    producer.write(log, 1)
    with pytest.raises(DuplicateSequenceNumberError):
        log.append_as_leader(producer.again(0), 0)


def test_what_is_refused_changes_nothing() -> None:
    log = make_log(MemoryFiles())
    producer = Producer(epoch=3)
    producer.write(log, 2)
    with pytest.raises(OutOfOrderSequenceNumberError):
        log.append_as_leader(batch(b"x", producer=(7, 3, 9)), 0)
    with pytest.raises(InvalidProducerEpochError):
        log.append_as_leader(batch(b"x", producer=(7, 2, 2)), 0)
    assert log.log_end_offset == 2
    producer.write(log, 1)


@pytest.mark.hostile(45)
def test_an_id_belongs_to_the_principal_that_used_it_first() -> None:
    files = MemoryFiles()
    log = make_log(files)
    producer = Producer()
    log.append_as_leader(producer.next(), 0)  # of somebody who is not known: owns nothing
    log.append_as_leader(producer.next(), 0, user="User:app")
    for data in (
        producer.again(0),
        batch(b"x", producer=(7, 0, 2)),
        batch(b"x", producer=(7, 9, 0)),
    ):
        for user in ("User:other", None):
            with pytest.raises(InvalidProducerIdMappingError):
                log.append_as_leader(data, 0, user=user)
    assert log.log_end_offset == 2
    assert log.append_as_leader(producer.again(1), 0, user="User:app").repeated
    log.append_as_leader(producer.next(), 0, user="User:app")
    log.append_as_leader(batch(b"x", producer=(8, 0, 0)), 0, user="User:other")
    log.producers.close(keep=True)
    again = reload_log(files)
    again.append_as_leader(producer.next(), 0, user="User:other")  # the first one since the start
    with pytest.raises(InvalidProducerIdMappingError):
        again.append_as_leader(producer.next(), 0, user="User:app")


def test_nobody_owns_an_id_on_a_plain_listener() -> None:
    log = make_log(MemoryFiles())
    producer = Producer()
    producer.write(log, 3)
    assert log.producers.state.producers[7].user is None


def test_with_append_time_a_repeat_gets_the_time_of_the_append() -> None:
    files, clock = MemoryFiles(), ManualClock(NOW_MS)
    config = topic_config(message_timestamp_type="LogAppendTime")
    log = make_log(files, config, log_dir=make_log_dir(files, clock=clock))
    producer = Producer()
    first = log.append_as_leader(producer.next(), 0)
    clock.advance(5)
    again = log.append_as_leader(producer.again(0), 0)
    assert again == first._replace(repeated=True)
    assert again.log_append_time_ms == NOW_MS


def test_a_failed_append_is_not_remembered() -> None:
    files = MemoryFiles()
    log = make_log(files)
    producer = Producer()
    producer.write(log, 1)
    files.fail("append", f"{DATA}/{TP}", error=28, keep_bytes=10)
    with pytest.raises(Exception, match="full"):
        log.append_as_leader(producer.next(), 0)
    files.heal()
    assert not log.append_as_leader(producer.again(1), 0).repeated


def test_a_follower_knows_what_its_leader_knows() -> None:
    leader, follower = make_log(MemoryFiles(), SMALL), make_log(MemoryFiles(), SMALL)
    producers = [Producer(producer_id) for producer_id in range(3)]
    draw = random.Random(5)
    for _ in range(60):
        draw.choice(producers).write(leader, 1)
    catch_up(follower, leader)
    assert state_of(follower) == state_of(leader)
    for producer in producers:
        again = follower.append_as_leader(producer.again(-1), 1)
        assert again.repeated
        producer.write(follower, 1, epoch=1)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_a_start_knows_what_the_last_life_knew(clean: bool, count: int) -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    producers = [Producer(1), Producer(2)]
    for producer in producers:
        producer.write(log, count)
    sync(log)
    known = state_of(log)
    if clean:
        log.close()
    again = reload_log(
        files.reborn("all"), SMALL, recovery_point=log.recovery_point if clean else 0, clean=clean
    )
    assert state_of(again) == known
    assert again.append_as_leader(producers[0].again(-1), 0).repeated
    producers[1].write(again, 1)


def test_a_torn_tail_is_not_remembered() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    producer = Producer()
    producer.write(log, 30)
    sync(log)
    producer.write(log, 3)
    values = values_in(log)
    newest = log.segments.active.path
    files = files.reborn(lambda v: v.current[:-10] if v.path == newest else v.current)
    again = reload_log(files, SMALL, recovery_point=30)
    assert again.log_end_offset == 32
    assert not again.append_as_leader(producer.again(32), 0).repeated
    assert values_in(again) == values


@pytest.mark.parametrize("seed", range(20))
def test_cuts_take_back_what_they_cut(seed: int) -> None:
    """The state says nothing else than the log after any truncation."""
    draw = random.Random(seed)
    log = make_log(MemoryFiles(), SMALL)
    producers = [Producer(producer_id) for producer_id in range(4)]
    for number in range(80):
        # One after the other, so that cuts take all that is remembered of one and not of another.
        producers[number // 7 % 4 if seed % 2 else draw.randrange(4)].write(log, 1)
    for _ in range(6):
        log.truncate_to(draw.randrange(log.log_end_offset + 1))
        assert log.producers.contradiction() == ""
        left = {header.producer_id for header in headers_in(log)}
        assert set(log.producers.state.producers) == left
        if not log.log_end_offset:
            break


def test_a_cut_brings_the_older_epoch_back() -> None:
    log = make_log(MemoryFiles())
    old, new = Producer(epoch=0), Producer(epoch=1)
    old.write(log, 3)
    new.write(log, 2, epoch=1)
    log.truncate_to(3)
    assert log.producers.state.producers[7].epoch == 0
    assert log.append_as_leader(old.again(0), 2).repeated
    old.write(log, 1, epoch=2)


def test_a_cut_does_not_forget_whose_records_were_deleted() -> None:
    config = topic_config(segment_bytes=1024, retention_bytes=0)
    log = make_log(MemoryFiles(), config)
    gone, other = Producer(1), Producer(2)
    gone.write(log, 3)
    log.roll()
    other.write(log, 2)
    log.apply_retention(NOW_MS, 3)
    assert log.log_start_offset == 3
    log.truncate_to(4)
    assert log.append_as_leader(gone.again(-1), 1).base_offset == 2
    with pytest.raises(OutOfOrderSequenceNumberError):
        log.append_as_leader(batch(b"x", producer=(1, 0, 9)), 1)
    gone.write(log, 1, epoch=1)


@pytest.mark.parametrize("clean", [True, False])
def test_deleting_all_records_forgets_no_producer(clean: bool) -> None:
    # [K8], KIP-360: the next batch of a producer follows its last one, which is deleted.
    files = MemoryFiles()
    config = topic_config(segment_bytes=1024, retention_bytes=0)
    log = make_log(files, config)
    producer = Producer()
    producer.write(log, 7)
    log.apply_retention(NOW_MS, 7)
    assert log.log_start_offset == log.log_end_offset == 7
    sync(log)
    if clean:
        log.close()
    again = reload_log(files, config, recovery_point=7, log_start_offset=7, clean=clean)
    for each in (log, again):
        assert each.append_as_leader(producer.again(-1), 0).repeated
        with pytest.raises(OutOfOrderSequenceNumberError):
            each.append_as_leader(batch(b"x", producer=(7, 0, 9)), 0)


def test_a_log_that_begins_anew_knows_nobody() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    producer = Producer()
    producer.write(log, 30)
    log.truncate_fully_and_start_at(100)
    assert state_of(log) == {}
    assert not [name for name in files.list_dir(log.directory) if name.endswith(".snapshot")]
    log.append_as_leader(batch(b"x", producer=(7, 0, 500)), 0)  # nothing contradicts it


def test_a_producer_is_forgotten_by_time_alone() -> None:
    files, clock = MemoryFiles(), ManualClock(NOW_MS)
    log = make_log(files, log_dir=make_log_dir(files, clock=clock))
    Producer(1).write(log, 1)
    clock.advance(1000)
    Producer(2).write(log, 1)
    log.producers.expire(NOW_MS + 1500, 1000)
    assert sorted(state_of(log)) == [2]


def test_more_producers_than_are_remembered_wait_until_some_are_forgotten() -> None:
    files, clock = MemoryFiles(), ManualClock(NOW_MS)
    log = make_log(files, log_dir=make_log_dir(files, clock=clock, producer_ids_max=2))
    first, second, third = Producer(1), Producer(2), Producer(3)
    first.write(log, 2)
    second.write(log, 1)
    refused = third.next()
    with pytest.raises(ThrottlingQuotaExceededError, match="producer_ids_per_partition_max is 2"):
        log.append_as_leader(refused, 0)
    end = log.log_end_offset
    assert log.append_as_leader(first.again(0), 0).repeated, "who is remembered is not affected"
    second.write(log, 1)
    clock.advance(1000)
    second.write(log, 1)
    log.producers.expire(NOW_MS + 1500, 1000)
    assert log.append_as_leader(third.again(0), 0).base_offset == end + 2
    assert sorted(state_of(log)) == [2, 3]


def test_a_follower_takes_whatever_its_leader_has_taken() -> None:
    leader, files = make_log(MemoryFiles()), MemoryFiles()
    follower = make_log(files, log_dir=make_log_dir(files, producer_ids_max=1))
    for producer_id in range(5):
        Producer(producer_id).write(leader, 1)
    catch_up(follower, leader)
    assert sorted(state_of(follower)) == list(range(5))


def test_a_transaction_is_refused_before_its_coordinator_is_asked() -> None:
    files = MemoryFiles()
    log = make_log(files, log_dir=make_log_dir(files, producer_ids_max=1))
    Producer(1).write(log, 1)
    data = txn_batch(b"v", producer=(2, 0, 0))
    with pytest.raises(ThrottlingQuotaExceededError):
        log.producers.needs_guard(parse_header(data))


def test_of_a_damaged_log_nothing_is_said() -> None:
    files = MemoryFiles()
    log = make_log(files)
    Producer().write(log, 5)
    sync(log)
    files.corrupt(log.segments.active.path, 16)
    again = reload_log(files, recovery_point=5)
    assert again.damage
    assert state_of(again) == {}
    again.close()
    assert not files.exists(f"{DATA}/{TP}/{5:020d}.snapshot")


def test_without_the_rules_repeats_are_appended_or_refused() -> None:
    def with_five_batches(safeguards: LogSafeguards) -> tuple[PartitionLog, Producer]:
        log, producer = make_log(MemoryFiles()), Producer()
        log.producers._state = safeguards.producer_state()
        producer.write(log, BATCHES_MAX)
        return log, producer

    log, producer = with_five_batches(SAFE)
    assert log.append_as_leader(producer.again(0), 0).repeated
    log, producer = with_five_batches(without("remember_producers"))
    assert not log.append_as_leader(producer.again(0), 0).repeated
    log, producer = with_five_batches(without("remember_five_batches"))
    with pytest.raises(DuplicateSequenceNumberError):
        log.append_as_leader(producer.again(0), 0)
    for compare in (True, False):
        log, producer = with_five_batches(SAFE if compare else without("compare_content"))
        other = batch(b"other", producer=(7, 0, 4))
        try:
            assert log.append_as_leader(other, 0).repeated
            assert not compare
        except OutOfOrderSequenceNumberError:
            assert compare


def test_a_follower_that_does_not_listen_knows_nobody() -> None:
    leader, follower = make_log(MemoryFiles()), make_log(MemoryFiles())
    follower.producers._state = without("followers_know_producers").producer_state()
    producer = Producer()
    producer.write(leader, 3)
    catch_up(follower, leader)
    assert state_of(follower) == {}
    assert "not known" in follower.producers.contradiction()
    assert not follower.append_as_leader(producer.again(-1), 1).repeated


def test_contradictions_are_named() -> None:
    log = make_log(MemoryFiles())
    Producer().write(log, 3)
    assert log.producers.contradiction() == ""
    entry = log.producers.state.producers[7]
    entry.epoch = 4
    assert "epoch 4" in log.producers.contradiction()
    entry.epoch = 0
    entry.batches[-1] = entry.batches[-1]._replace(base_offset=9)
    assert "the log has" in log.producers.contradiction()
    log.producers._state = ProducerState()
    assert "not known" in log.producers.contradiction()


def test_a_snapshot_follows_when_much_was_written() -> None:
    files = MemoryFiles()
    log = make_log(files)
    producer = Producer()
    size = len(producer.next())
    producer = Producer()
    found = []
    for _ in range(12):
        producer.write(log, 1)
        if log.producers.keep_up(3 * size):
            found.append(log.log_end_offset)
    assert found == [3, 6, 9, 12]
    producer.write(log, 2)
    log.roll()
    assert not log.producers.keep_up(3 * size)
    producer.write(log, 3)
    assert log.producers.keep_up(3 * size)
    again = reload_log(files)
    assert state_of(again) == state_of(log)


def test_a_snapshot_is_written_once_for_an_end() -> None:
    files = MemoryFiles()
    log = make_log(files)
    Producer().write(log, 3)
    log.producers.snapshot()
    files.fail("open", f"{DATA}/{TP}/{3:020d}.snapshot")
    log.producers.snapshot()
    files.heal()
    log.truncate_to(2)
    Producer(8).write(log, 1, epoch=1)
    log.producers.snapshot()
    assert sorted(state_of(reload_log(files))) == [7, 8]


def test_the_last_batch_of_a_producer_keeps_its_sequences() -> None:
    files = MemoryFiles("/data")
    log = make_log(files, COMPACTED)

    def write(producer_id: int, sequence: int) -> memoryview:
        value = b"%d" % log.log_end_offset * 30
        data = batch(value, keys=[b"k"], producer=(producer_id, 0, sequence))
        sent = memoryview(bytearray(data))
        log.append_as_leader(data, 0)
        return sent

    write(1, 0)
    last_of_1 = write(1, 1)
    for sequence in range(40):
        last_of_2 = write(2, sequence)
    log.roll()
    write(3, 0)
    clean(log)
    empty = [header for header in headers_in(log) if not header.record_count]
    assert [header.producer_id for header in empty if header.producer_id >= 0] == [1]
    sync(log)
    again = reload_log(files, COMPACTED, recovery_point=log.recovery_point)
    follower = make_log(MemoryFiles("/data"), COMPACTED)
    while follower.log_end_offset < log.log_end_offset:
        data = log.read(follower.log_end_offset, 1 << 20, upto=log.log_end_offset)
        follower.append_as_follower(memoryview(bytearray(data)))
    for each in (log, again, follower):
        assert each.producers.contradiction() == ""
        assert each.append_as_leader(memoryview(bytearray(last_of_1)), 1).base_offset == 1
        assert each.append_as_leader(memoryview(bytearray(last_of_2)), 1).repeated
    # It goes when it is the last one no more.
    write(1, 2)
    log.roll()
    write(3, 1)
    clean(log)
    assert [header.producer_id for header in headers_in(log)].count(1) == 1


def snapshots(files: MemoryFiles) -> list[int]:
    names = files.list_dir(f"{DATA}/{TP}")
    return [int(name[:20]) for name in names if name.endswith(".snapshot")]


async def log_of_many_producers(files: MemoryFiles, count: int) -> PartitionLog:
    log = make_log(files)
    log.log_dir.start()
    for producer_id in range(count):
        Producer(producer_id).write(log, 1)
    await log.log_dir.flusher.idle()
    return log


async def test_a_snapshot_of_many_producers_takes_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_producers, "PRODUCERS_PER_TURN", 10)
    files, count = MemoryFiles(), 45
    log = await log_of_many_producers(files, count)
    known = state_of(log)
    log.roll()
    turns = 0
    while snapshots(files) == []:
        if not turns:
            Producer(5, 1).write(log, 1)  # not of that moment
        turns += 1
        await asyncio.sleep(0)
    assert turns >= count // 10
    assert snapshots(files) == [count]
    state = ProducerState()
    offset, _, encoded, _ = decode(files.read_bytes(snapshot_path(log.directory, count)))
    state.restore(encoded)
    assert offset == count
    assert {pid: (e.epoch, [b[:4] for b in e.batches]) for pid, e in state.producers.items()} == (
        known
    )
    sync(log)
    again = reload_log(files)
    assert state_of(again) == state_of(log)
    log.log_dir.flusher.stop()


@pytest.mark.parametrize("end", ["cut", "closed", "deleted", "stopped"])
async def test_a_snapshot_that_is_not_whole_is_left_out(
    end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_producers, "PRODUCERS_PER_TURN", 10)
    files, count = MemoryFiles(), 45
    log = await log_of_many_producers(files, count)
    log.roll()
    await asyncio.sleep(0)
    if end == "cut":
        log.truncate_to(40)
    elif end == "stopped":
        await log.log_dir.stop(clean=False, broker_epoch=1)
    else:
        log.close(keep=end == "closed")
    for _ in range(count):
        await asyncio.sleep(0)
    assert snapshots(files) == ([count] if end == "closed" else [])
    log.log_dir.flusher.stop()
