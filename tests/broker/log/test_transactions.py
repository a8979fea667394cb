"""Transactions in a log begin, end, are refused, and are known again after any stop or
truncation."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_broker.log.open_transactions import NONE_UNDECIDED
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.producer_state import ENDED_MS
from oncelog_protocol.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    StorageError,
    TransactionCoordinatorFencedError,
)
from oncelog_protocol.messages.transaction_admin import DescribedProducer
from oncelog_protocol.records.batch import CONTROL_BIT, HEADER, identify, parse_header
from oncelog_protocol.records.control import ControlType, decode_marker
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, SMALL, batch, catch_up, make_log, reload_log, sync, topic_config
from support.transactional_logs import (
    TxnProducer,
    append_txn,
    committed_values,
    txn_batch,
    undecided_by_replay,
)
from unsafe.log import without


def follower_of(leader: PartitionLog) -> PartitionLog:
    log = make_log(MemoryFiles(), leader.config)
    catch_up(log, leader)
    return log


def made_without(switch: str) -> PartitionLog:
    """Return a log under other rules."""
    log = make_log(MemoryFiles())
    log.producers._state = without(switch).producer_state()
    return log


# ---- appending


def test_a_marker_tells_what_it_ends() -> None:
    log = make_log(MemoryFiles())
    producer = TxnProducer(7, 4)
    producer.send(log, b"a", b"b")
    producer.send(log, b"c")
    append = producer.end(log, commit=True, coordinator_epoch=12, leader_epoch=3)
    assert (append.base_offset, append.last_offset, append.repeated) == (3, 3, False)
    data = log.read(3, 1 << 20, upto=4)
    marker = decode_marker(data)
    assert marker == (ControlType.COMMIT, 7, 5, 12, 3, NOW_MS, 0, -1)
    assert parse_header(data).leader_epoch == 3
    TxnProducer(8).end(log, commit=False, leader_epoch=3)
    assert decode_marker(log.read(4, 1 << 20, upto=5)).first_offset == -1


def test_the_first_batch_needs_a_guard_and_the_others_do_not() -> None:
    log = make_log(MemoryFiles())
    producers = log.producers
    first, second = txn_batch(b"a", producer=(7, 0, 0)), txn_batch(b"b", producer=(7, 0, 1))
    assert producers.needs_guard(parse_header(first))
    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(first, 0)
    assert log.log_end_offset == 0
    again = memoryview(bytearray(first))
    log.append_as_leader(first, 0, producers.take_guard(7, 0))
    assert not producers.needs_guard(parse_header(second))
    log.append_as_leader(second, 0)
    assert not producers.needs_guard(parse_header(again)), "a repeat needs none"
    assert log.append_as_leader(again, 0).repeated
    plain = batch(b"x", producer=(9, 0, 0))
    assert not producers.needs_guard(parse_header(plain))
    refused = txn_batch(b"x", producer=(7, 0, 5))
    assert not producers.needs_guard(parse_header(refused)), "the log refuses it anyway"


def test_each_transaction_begins_at_sequence_zero() -> None:
    log = make_log(MemoryFiles())
    with pytest.raises(OutOfOrderSequenceNumberError):
        append_txn(log, txn_batch(b"a", producer=(7, 0, 3)))
    producer = TxnProducer(7)
    producer.send(log, b"a")
    producer.end(log, commit=True)
    with pytest.raises(OutOfOrderSequenceNumberError):
        append_txn(log, txn_batch(b"a", producer=(7, 1, 1)))
    producer.send(log, b"b")


def test_nothing_else_of_the_producer_goes_into_an_open_transaction() -> None:
    log = make_log(MemoryFiles())
    TxnProducer(7).send(log, b"a")
    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 0)
    late = txn_batch(b"b", producer=(7, 1, 0))
    with pytest.raises(InvalidTxnStateError):
        append_txn(log, late)
    log.append_as_leader(batch(b"of another", producer=(8, 0, 0)), 0)
    log.append_as_leader(batch(b"of nobody"), 0)


def test_a_batch_of_an_ended_transaction_is_refused() -> None:
    """It is the late Produce of KIP-890."""
    log = make_log(MemoryFiles())
    producer = TxnProducer(7)
    producer.send(log, b"a")
    late = producer.batch(b"late")
    producer.end(log, commit=True)
    with pytest.raises(InvalidProducerEpochError):
        append_txn(log, late)


@pytest.mark.parametrize("producer", [(-1, -1, -1)])
def test_the_transactional_bit_needs_a_producer(producer: tuple[int, int, int]) -> None:
    log = make_log(MemoryFiles())
    with pytest.raises(InvalidRecordError):
        log.append_as_leader(txn_batch(b"a", producer=producer), 0)


def test_clients_write_no_markers() -> None:
    log = make_log(MemoryFiles())
    data = bytearray(txn_batch(b"a", producer=(7, 0, 0)))
    fields = list(HEADER.unpack_from(data))
    fields[5] |= CONTROL_BIT
    HEADER.pack_into(data, 0, *fields)
    identify(data, 7, 0, 0)
    with pytest.raises(InvalidRecordError, match="brokers only"):
        log.append_as_leader(memoryview(data), 0, log.producers.take_guard(7, 0))


# ---- markers


def test_a_repeated_marker_appends_nothing() -> None:
    log = make_log(MemoryFiles())
    producer = TxnProducer(7)
    producer.send(log, b"a")
    producer.end(log, commit=True)
    again = log.append_marker(True, 7, 1, 0, 0)
    assert again.repeated
    assert (again.last_offset + 1, log.log_end_offset) == (2, 2)


def test_a_late_marker_of_equal_epoch_does_not_end_the_next_transaction() -> None:
    """KIP-1228: the marker of transaction 0, sent twice, comes again while 1 is open."""
    log = make_log(MemoryFiles())
    producer = TxnProducer(7)
    producer.send(log, b"a")
    producer.end(log, commit=True)
    producer.send(log, b"b")
    with pytest.raises(InvalidProducerEpochError):
        log.append_marker(True, 7, 1, 0, 0)
    with pytest.raises(InvalidProducerEpochError):
        log.append_marker(True, 7, 0, 0, 0)
    assert log.producers.open_from(7) == 2
    producer.send(log, b"c")
    producer.end(log, commit=False)
    assert committed_values(log, upto=log.log_end_offset) == [b"a"]


def test_the_rule_of_the_newer_epoch_is_needed() -> None:
    log = made_without("markers_need_newer_epoch")
    producer = TxnProducer(7)
    producer.send(log, b"a")
    producer.end(log, commit=True)
    producer.send(log, b"b")
    assert not log.append_marker(True, 7, 1, 0, 0).repeated
    assert log.producers.open_from(7) == -1, "ended by the marker of another"


def test_a_late_marker_of_an_earlier_number_does_not_end_the_next_transaction() -> None:
    """The epoch stays, so only the number tells one transaction from the next."""
    log = make_log(MemoryFiles())
    producer = TxnProducer(7, by_number=True)
    producer.send(log, b"a")
    producer.end(log, commit=True)
    producer.send(log, b"b")
    assert producer.marker_again(log, commit=True).repeated
    assert log.producers.open_from(7) == 2
    producer.send(log, b"c")
    producer.end(log, commit=False)
    assert committed_values(log, upto=log.log_end_offset) == [b"a"]
    marker = decode_marker(log.read(4, 1 << 20, upto=5))
    assert (marker.producer_epoch, marker.number, marker.first_offset) == (0, 2, 2)


def test_the_rule_of_the_newer_number_is_needed() -> None:
    log = made_without("markers_need_newer_number")
    producer = TxnProducer(7, by_number=True)
    producer.send(log, b"a")
    producer.end(log, commit=True)
    producer.send(log, b"b")
    assert not producer.marker_again(log, commit=True).repeated
    assert log.producers.open_from(7) == -1, "ended by the marker of another"


def test_a_marker_with_a_number_is_written_where_nothing_is_open_and_voids_guards() -> None:
    log = make_log(MemoryFiles())
    guard = log.producers.take_guard(7, 0, by_number=True)
    producer = TxnProducer(7, by_number=True)
    assert not producer.end(log, commit=True).repeated
    assert not guard.valid
    assert producer.marker_again(log, commit=True).repeated


def test_numbers_belong_to_an_epoch() -> None:
    log = make_log(MemoryFiles())
    producer = TxnProducer(7, by_number=True)
    producer.send(log, b"a")
    producer.end(log, commit=True)
    producer.send(log, b"b")
    log.append_marker(False, 7, 1, 0, 0)  # it was fenced
    with pytest.raises(InvalidProducerEpochError):
        producer.end(log, commit=True)
    producer.fenced(2)
    producer.send(log, b"c")
    assert not producer.end(log, commit=True).repeated
    assert committed_values(log, upto=log.log_end_offset) == [b"a", b"c"]


def test_a_producer_with_numbers_goes_on_where_it_was_forgotten() -> None:
    log = make_log(MemoryFiles())
    late = txn_batch(b"x", producer=(7, 0, 57))
    with pytest.raises(OutOfOrderSequenceNumberError):
        append_txn(log, late)
    append_txn(log, late, by_number=True)
    assert log.producers.open_from(7) == 0


def test_a_truncated_transaction_leaves_the_batches_of_the_one_before() -> None:
    log = make_log(MemoryFiles())
    producer = TxnProducer(7, by_number=True)
    producer.send(log, b"a")
    producer.end(log, commit=True)
    producer.send(log, b"b")
    log.truncate_to(2)
    assert log.producers.open_from(7) == -1
    assert log.producers.contradiction() == ""
    assert log.producers.needs_guard(parse_header(txn_batch(b"b", producer=(7, 0, 1))))


def test_the_guard_is_needed() -> None:
    log = made_without("verify_transactions")
    late = txn_batch(b"late", producer=(7, 0, 0))
    assert not log.producers.needs_guard(parse_header(late))
    log.append_as_leader(late, 0)
    assert log.producers.open_from(7) == 0, "and nobody will ever end it"


def test_an_aborted_range_must_be_known_in_time() -> None:
    log = made_without("abort_index_before_lso")
    producer = TxnProducer(7)
    producer.send(log, b"a")
    producer.end(log, commit=False)
    log.producers.committed(log.log_end_offset)
    assert committed_values(log) == [b"a"], "an aborted record is read as committed"
    safe = make_log(MemoryFiles())
    producer = TxnProducer(7)
    producer.send(safe, b"a")
    producer.end(safe, commit=False)
    safe.producers.committed(safe.log_end_offset)
    assert committed_values(safe) == []


def test_an_older_coordinator_ends_nothing() -> None:
    log = make_log(MemoryFiles())
    producer = TxnProducer(7)
    producer.send(log, b"a")
    producer.end(log, commit=True, coordinator_epoch=5)
    producer.send(log, b"b")
    with pytest.raises(TransactionCoordinatorFencedError):
        producer.end(log, commit=False, coordinator_epoch=4)
    log.append_marker(False, 7, 2, 5, 0)


def test_a_marker_without_data_fences_the_older_epoch() -> None:
    """The partition was added to the transaction, and no batch has come."""
    log = make_log(MemoryFiles())
    log.append_marker(False, 7, 3, 0, 0)
    assert not log.aborted
    with pytest.raises(InvalidProducerEpochError):
        append_txn(log, txn_batch(b"late", producer=(7, 2, 0)))
    append_txn(log, txn_batch(b"next", producer=(7, 3, 0)))


def test_a_marker_may_use_the_room_of_last_resort() -> None:
    """While a transaction is open, nothing behind it can be deleted."""
    files = MemoryFiles()
    log = make_log(files)
    producer = TxnProducer(7)
    producer.send(log, b"a")
    asked: list[bool] = []

    def take_space(size_bytes: int, *, internal: bool) -> None:
        asked.append(internal)
        if not internal:
            raise StorageError("full")

    log.log_dir.take_space = take_space  # type: ignore[method-assign]
    log.log_dir.credit_bytes = 0
    with pytest.raises(StorageError):
        producer.send(log, b"b")
    producer.end(log, commit=True)
    assert asked == [False, True]


def test_a_marker_on_a_log_that_takes_no_writes() -> None:
    log = make_log(MemoryFiles())
    log.damage = "rot"
    with pytest.raises(StorageError):
        log.append_marker(True, 7, 1, 0, 0)


def test_the_topics_append_time_does_not_spoil_markers() -> None:
    log = make_log(MemoryFiles(), topic_config(message_timestamp_type="LogAppendTime"))
    producer = TxnProducer(7)
    producer.send(log, b"a")
    producer.end(log, commit=False)
    assert committed_values(log, upto=2) == []
    assert log.producers.contradiction() == ""
    assert decode_marker(log.read(1, 1 << 20, upto=2)).first_offset == 0


# ---- what is known


def test_what_is_told_of_producers() -> None:
    log = make_log(MemoryFiles())
    first, second = TxnProducer(7), TxnProducer(3, 2)
    first.send(log, b"a", b"b")
    second.send(log, b"c")
    second.end(log, commit=True, coordinator_epoch=9)
    ended = DescribedProducer(3, 3, -1, NOW_MS, 9, -1)
    opened = DescribedProducer(7, 0, 1, NOW_MS, -1, 0)
    assert log.producers.describe(2) == ([ended, opened], False)
    assert log.producers.describe(1) == ([ended], True)
    assert log.producers.describe(1, after=3) == ([opened], False)
    assert log.producers.describe(1, after=7) == ([], False)
    assert log.producers.describe_open(1) == [opened]


def test_open_transactions_and_uncommitted_markers_are_not_forgotten() -> None:
    log = make_log(MemoryFiles())
    first, second, third = TxnProducer(1), TxnProducer(2), TxnProducer(3)
    first.send(log, b"open")
    second.send(log, b"ended")
    second.end(log, commit=True)
    log.producers.committed(log.log_end_offset)
    third.send(log, b"not committed")
    third.end(log, commit=True)
    log.producers.expire(NOW_MS + 5000, 1000)
    assert sorted(log.producers.state.producers) == [1, 3]
    log.producers.committed(log.log_end_offset)
    log.producers.expire(NOW_MS + 5000, 1000)
    assert sorted(log.producers.state.producers) == [1]


def test_who_has_ended_is_forgotten_soon_and_who_writes_without_transactions_is_not() -> None:
    log = make_log(MemoryFiles())
    day_ms = 86_400_000
    ended, again = TxnProducer(1), TxnProducer(2)
    for producer in (ended, again):
        producer.send(log, b"v")
        producer.end(log, commit=True)
    again.send(log, b"open")
    log.append_as_leader(batch(b"w", producer=(3, 0, 0)), 0)
    log.producers.committed(log.log_end_offset)
    log.producers.expire(NOW_MS + ENDED_MS, day_ms)
    assert sorted(log.producers.state.producers) == [1, 2, 3]
    log.producers.expire(NOW_MS + ENDED_MS + 1, day_ms)
    assert sorted(log.producers.state.producers) == [2, 3]
    assert log.producers.contradiction() == ""


def test_what_comes_late_of_one_that_was_forgotten_is_verified() -> None:
    """Its coordinator knows that the transaction has ended."""
    log = make_log(MemoryFiles())
    producer = TxnProducer(1)
    late = [producer.batch(b"v"), producer.batch(b"w")]
    first = log.producers.take_guard(1, 0)
    append_txn(log, memoryview(bytearray(late[0])))
    producer.end(log, commit=True)
    log.producers.committed(log.log_end_offset)
    log.producers.expire(NOW_MS + ENDED_MS + 1, 86_400_000)
    assert log.producers.state.producers == {}
    assert log.producers.needs_guard(parse_header(late[0]))
    for guard in (None, first):
        with pytest.raises(InvalidTxnStateError):
            log.append_as_leader(memoryview(bytearray(late[0])), 0, guard)
    with pytest.raises(OutOfOrderSequenceNumberError):
        log.append_as_leader(memoryview(bytearray(late[1])), 0)


def test_a_follower_knows_what_its_leader_knows() -> None:
    leader = make_log(MemoryFiles(), SMALL)
    first, second = TxnProducer(1), TxnProducer(2)
    for number in range(8):
        first.send(leader, b"1 " * 40)
        second.send(leader, b"2 " * 40)
        first.end(leader, commit=number % 2 == 0, coordinator_epoch=number)
        if number % 3 == 0:
            second.end(leader, commit=number % 2 == 1)
    log = follower_of(leader)
    assert log.producers.first_undecided == leader.producers.first_undecided
    assert log.aborted.rows() == leader.aborted.rows()
    assert log.producers.contradiction() == leader.producers.contradiction() == ""
    assert log.producers.state.encode() == leader.producers.state.encode()
    second.send(log, b"it leads now")  # its transaction is open here too
    second.end(log, commit=True)


def test_an_unknown_marker_hides_and_does_not_expose() -> None:
    """It comes from a later release: what it ends stays undecided."""
    leader = make_log(MemoryFiles())
    producer = TxnProducer(7)
    producer.send(leader, b"a")
    producer.end(leader, commit=False)
    data = bytearray(leader.read(0, 1 << 20, upto=2))
    at = data.rindex(b"\x00\x00\x00\x00")  # the key: version 0, type 0
    data[at + 3] = 9
    start = parse_header(data).size_bytes
    marker = bytearray(data[start:])
    identify(marker, 7, 1, -1)
    log = make_log(MemoryFiles())
    log.append_as_follower(memoryview(data[:start] + marker))
    log.producers.committed(2)
    assert log.producers.first_undecided == 0


# ---- retention


def test_retention_stops_at_an_undecided_transaction() -> None:
    log = make_log(MemoryFiles(), topic_config(segment_bytes=1024, retention_bytes=0))
    keeps = TxnProducer(1)
    other = TxnProducer(2)
    for _ in range(6):
        other.send(log, b"x" * 300)
        other.end(log, commit=True)
    keeps.send(log, b"long")
    begun = log.producers.open_from(1)
    for _ in range(12):
        other.send(log, b"x" * 300)
        other.end(log, commit=False)
    sync(log)
    log.producers.committed(log.log_end_offset)
    log.apply_retention(NOW_MS, log.log_end_offset)
    assert 0 < log.log_start_offset <= begun
    ranges = len(log.aborted)
    assert ranges == 12
    keeps.end(log, commit=True)
    log.apply_retention(NOW_MS, log.log_end_offset)
    assert log.log_start_offset <= begun, "the marker is not committed"
    log.producers.committed(log.log_end_offset)
    log.apply_retention(NOW_MS, log.log_end_offset)
    assert log.log_start_offset > begun
    assert len(log.aborted) < ranges


# ---- everything at once


class _Model:
    """It has a leader and a follower, random transactions, and what readers must get."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = MemoryFiles()
        self.log = make_log(self.files, SMALL)
        self.producers = [TxnProducer(pid, by_number=pid > 2) for pid in range(6)]
        self.sent: dict[int, list[bytes]] = {}
        self.high_watermark = 0
        self.outcomes: dict[bytes, str] = {}
        self.number = 0

    def step(self) -> None:
        chance = self.chance
        choice = chance.random()
        producer = chance.choice(self.producers)
        if choice < 0.5:
            value = b"%d " % self.number + b"." * chance.randrange(100)
            self.number += 1
            producer.send(self.log, value)
            self.outcomes[value] = "open"
            self.sent.setdefault(producer.producer_id, []).append(value)
        elif choice < 0.55 and producer.number:
            # A marker that was there comes again, and tells the opposite for good measure.
            number = chance.randint(1, producer.number)
            again = producer.marker_again(self.log, commit=chance.random() < 0.5, number=number)
            assert again.repeated
        elif choice < 0.75:
            commit = chance.random() < 0.6
            producer.end(self.log, commit=commit)
            for value in self.sent.pop(producer.producer_id, []):
                self.outcomes[value] = "committed" if commit else "aborted"
        elif choice < 0.8:
            value = b"plain %d" % self.number
            self.number += 1
            self.log.append_as_leader(batch(value), 0)
            self.outcomes[value] = "committed"
        elif choice < 0.92:
            sync(self.log)
            low, high = self.high_watermark, self.log.log_end_offset
            self.high_watermark = chance.randrange(low, high + 1)
            self.log.producers.committed(self.high_watermark)
        elif choice < 0.96:
            if chance.random() < 0.3:
                self.log.producers.snapshot()
            if chance.random() < 0.3:
                self.log.close()
            sync(self.log)
            end = self.log.log_end_offset
            clean = chance.random() < 0.5
            if clean:
                self.log.close()
            self.log = reload_log(self.files, SMALL, recovery_point=end, clean=clean)
            self.log.producers.committed(self.high_watermark)
        else:
            self._cut()

    def _cut(self) -> None:
        """Act as a deposed leader that follows one with less, and is elected again."""
        log = self.log
        end = self.chance.randrange(self.high_watermark, log.log_end_offset + 1)
        log.truncate_to(end)
        self.high_watermark = min(self.high_watermark, log.log_end_offset)
        left = set(committed_values(log, [], upto=log.log_end_offset))
        for value in [value for value in self.outcomes if value not in left]:
            del self.outcomes[value]
        # Each is told by its coordinator how things stand, as far as this log goes.
        for producer in self.producers:
            pid = producer.producer_id
            entry = log.producers.state.producers.get(pid)
            mine = [v for v in self.sent.pop(pid, []) if v in self.outcomes]
            for value in mine:
                self.outcomes[value] = "aborted"
            epoch = max(producer.epoch, entry.epoch if entry is not None else 0) + 1
            producer.fenced(epoch)
            if log.producers.open_from(pid) >= 0:
                first = log.producers.open_from(pid)
                log.append_marker(False, pid, epoch, 0, 0)
                for value in self._data_of(pid, first):
                    self.outcomes[value] = "aborted"

    def _data_of(self, pid: int, first: int) -> list[bytes]:
        log, found, position = self.log, [], first
        while position < log.log_end_offset:
            data = log.read(position, 1, upto=log.log_end_offset)
            header = parse_header(data)
            if header.producer_id == pid and not header.is_control:
                found += [
                    value
                    for value in committed_values(log, [], start=position, upto=header.next_offset)
                    if value is not None
                ]
            position = header.next_offset
        return found

    def check(self) -> None:
        log = self.log
        first = undecided_by_replay(log, self.high_watermark)
        known = log.producers.first_undecided
        assert known == (NONE_UNDECIDED if first is None else first)
        assert log.producers.contradiction() == ""
        stable = min(self.high_watermark, known)
        for start in {log.log_start_offset, self.chance.randrange(stable + 1)}:
            got = committed_values(
                log, start=start, upto=stable, max_bytes=self.chance.choice([1, 400, 5000])
            )
            everything = committed_values(log, [], start=start, upto=stable)
            assert got == [v for v in everything if self.outcomes[v or b""] == "committed"]


@settings(max_examples=settings().max_examples // 4)
@given(st.integers(0, 2**32))
def test_readers_get_what_was_committed_and_nothing_else(seed: int) -> None:
    model = _Model(seed)
    for _ in range(120):
        model.step()
        if model.chance.random() < 0.15:
            model.check()
    model.check()
    follower = follower_of(model.log)
    assert follower.producers.contradiction() == ""
    assert [r[:3] for r in follower.aborted.rows()] == [r[:3] for r in model.log.aborted.rows()]
