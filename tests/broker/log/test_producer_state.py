"""One producer in one partition follows rules, by its batches ([K1], KIP-98, KIP-360)."""

from __future__ import annotations

import zlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.open_transactions import AbortedRow, EndedTransaction
from oncelog_broker.log.producer_state import (
    BATCHES_MAX,
    SEQUENCE_MAX,
    ProducerState,
    RememberedBatch,
    next_sequence,
)
from oncelog_protocol.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from oncelog_protocol.records.batch import BatchHeader, parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import ControlType, Marker

PID = 7


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, pid: int = PID
) -> BatchHeader:
    values = [b"%d" % (sequence + n) for n in range(count)]
    return parse_header(
        encode_batch(
            values,
            timestamps=1000,
            base_offset=offset,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


class Log:
    """It has a state, and the offsets that its log would give."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end = 0

    def send(self, batch: BatchHeader) -> RememberedBatch | int:
        """Return the repeated batch, or the offset that the batch got."""
        repeated = self.state.check(batch, batch.crc)
        if repeated is not None:
            return repeated
        placed = batch._replace(base_offset=self.end)
        self.state.applied(placed, 5000, append_time=False)
        self.end = placed.next_offset
        return placed.base_offset


def test_what_follows_is_taken() -> None:
    log = Log()
    assert [log.send(header(0, 3)), log.send(header(3)), log.send(header(4, 2))] == [0, 3, 4]


@pytest.mark.parametrize("place", range(BATCHES_MAX))
def test_a_repeat_is_answered_with_its_first_offset(place: int) -> None:
    log = Log()
    batches = [header(2 * n, 2) for n in range(BATCHES_MAX)]
    for batch in batches:
        log.send(batch)
    repeated = log.send(batches[place])
    assert isinstance(repeated, RememberedBatch)
    assert (repeated.base_offset, repeated.last_offset) == (2 * place, 2 * place + 1)
    assert log.end == 2 * BATCHES_MAX


def test_a_repeat_from_before_the_window_is_refused_as_a_duplicate() -> None:
    log = Log()
    for n in range(BATCHES_MAX + 1):
        log.send(header(n))
    with pytest.raises(DuplicateSequenceNumberError):
        log.send(header(0))


@pytest.mark.parametrize("sequence", [4, 100, SEQUENCE_MAX])
def test_a_gap_is_refused(sequence: int) -> None:
    log = Log()
    log.send(header(0, 3))
    with pytest.raises(OutOfOrderSequenceNumberError):
        log.send(header(sequence))
    assert log.send(header(3)) == 3, "and changes nothing"


@pytest.mark.parametrize(("first", "count"), [(0, 2), (1, 2), (2, 2), (2, 1), (1, 3)])
def test_an_overlap_in_another_shape_is_refused(first: int, count: int) -> None:
    log = Log()
    log.send(header(0, 3))
    with pytest.raises(OutOfOrderSequenceNumberError):
        log.send(header(first, count))


def test_the_same_sequences_with_other_content_are_refused() -> None:
    log = Log()
    log.send(header(0, 2))
    with pytest.raises(OutOfOrderSequenceNumberError, match="another batch"):
        log.send(header(0, 2)._replace(crc=1))


def test_content_is_not_compared_where_the_broker_wrote_its_time_into_the_batch() -> None:
    state = ProducerState()
    state.applied(header(0), 5000, append_time=True)
    assert state.check(header(0), 1) is not None


def test_epochs() -> None:
    log = Log()
    log.send(header(0, 3, epoch=1))
    with pytest.raises(InvalidProducerEpochError):
        log.send(header(3, epoch=0))
    with pytest.raises(OutOfOrderSequenceNumberError):
        log.send(header(3, epoch=2))
    assert log.send(header(0, epoch=2)) == 3
    with pytest.raises(InvalidProducerEpochError):
        log.send(header(0, 3, epoch=1))
    assert log.send(header(1, epoch=2)) == 4


def test_sequences_wrap() -> None:
    log = Log()
    log.send(header(SEQUENCE_MAX - 1, 1))
    assert log.send(header(SEQUENCE_MAX, 3)) == 1, "the batch itself reaches over the edge"
    assert log.send(header(2)) == 4
    repeated = log.send(header(SEQUENCE_MAX, 3))
    assert isinstance(repeated, RememberedBatch)
    assert repeated.base_offset == 1
    assert next_sequence(SEQUENCE_MAX) == 0


def test_a_producer_without_state_may_begin_anywhere() -> None:
    assert Log().send(header(41)) == 0


def test_producers_do_not_know_each_other() -> None:
    log = Log()
    log.send(header(0))
    assert log.send(header(0, pid=8)) == 1


def test_producers_expire_by_when_they_were_heard_of() -> None:
    state = ProducerState()
    state.applied(header(0), 1000, append_time=False)
    state.applied(header(0, pid=8), 2000, append_time=False)
    assert state.expire(3001, 2000) == 1
    assert list(state.producers) == [8]


def test_batches_without_a_producer_leave_no_trace() -> None:
    state = ProducerState()
    state.applied(parse_header(encode_batch([b"x"], timestamps=1)), 1000, append_time=False)
    assert not state.producers


batches = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 12), st.integers(1, 3)),
    max_size=60,
)


@given(batches)
def test_a_snapshot_answers_as_the_state_did(sent: list[tuple[int, int, int, int]]) -> None:
    log = Log()
    for pid, epoch, sequence, count in sent:
        try:
            log.send(header(sequence, count, epoch=epoch, pid=pid))
        except (
            OutOfOrderSequenceNumberError,
            InvalidProducerEpochError,
            DuplicateSequenceNumberError,
        ):
            pass
    other = ProducerState()
    other.restore(log.state.encode())
    assert other.encode() == log.state.encode()
    for pid, epoch, sequence, count in sent:
        batch = header(sequence, count, epoch=epoch, pid=pid)
        assert _answer(other, batch) == _answer(log.state, batch)


def _answer(state: ProducerState, batch: BatchHeader) -> object:
    try:
        return state.check(batch, batch.crc)
    except Exception as error:
        return type(error)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.lists(st.integers(0, 11), max_size=40),
)
def test_retries_in_a_window_of_five_never_duplicate_and_never_reorder(
    counts: list[int], retries: list[int]
) -> None:
    """Any batch of the last five may come again at any time, in any order."""
    log = Log()
    sent: list[tuple[BatchHeader, int]] = []
    sequence = 0
    for count in counts:
        batch = header(sequence, count)
        placed = log.send(batch)
        assert isinstance(placed, int)
        sent.append((batch, placed))
        sequence += count
        for retry in retries:
            if max(0, len(sent) - BATCHES_MAX) <= retry < len(sent):
                repeated = log.send(sent[retry][0])
                assert isinstance(repeated, RememberedBatch)
                assert repeated.base_offset == sent[retry][1]
    assert log.end == sum(counts)


@pytest.mark.parametrize("position", range(0, 40, 3))
def test_a_damaged_snapshot_is_refused(position: int) -> None:
    log = Log()
    log.send(header(0))
    data = bytearray(log.state.encode())
    data[position % len(data)] ^= 0x10
    with pytest.raises(CheckpointError):
        ProducerState().restore(bytes(data))
    with pytest.raises(CheckpointError):
        ProducerState().restore(bytes(data[: position % len(data)]))


# ---- markers and transactions


def txn_header(sequence: int, offset: int, *, epoch: int = 0, pid: int = 7) -> BatchHeader:
    batch = encode_batch(
        [b"x"],
        timestamps=1,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        base_offset=offset,
        transactional=True,
    )
    return parse_header(batch)


def marker(
    offset: int, *, epoch: int = 1, pid: int = 7, commit: bool = True, coordinator: int = 0
) -> Marker:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return Marker(kind, pid, epoch, coordinator, offset, 1)


def test_a_marker_leaves_its_epoch_and_no_batches() -> None:
    state = ProducerState()
    for number in range(3):
        state.applied(txn_header(number, number), 1000, append_time=False)
    entry = state.producers[7]
    assert entry.txn_first_offset == 0
    assert state.marked(marker(3, coordinator=4), 2000) is None
    assert (entry.epoch, entry.batches, entry.txn_first_offset) == (1, [], -1)
    assert (entry.marker_offset, entry.coordinator_epoch, entry.seen_ms) == (3, 4, 2000)
    with pytest.raises(OutOfOrderSequenceNumberError):
        state.check(txn_header(1, 4, epoch=1), 0)
    with pytest.raises(InvalidProducerEpochError):
        state.check(txn_header(3, 4, epoch=0), 0)
    assert state.check(txn_header(0, 4, epoch=1), 0) is None


def test_an_abort_tells_its_range_and_what_else_is_open() -> None:
    state = ProducerState()
    state.applied(txn_header(0, 0, pid=8), 1000, append_time=False)
    state.applied(txn_header(0, 1), 1000, append_time=False)
    assert state.marked(marker(2, commit=False), 1000) == AbortedRow(7, 1, 2, 0)
    told = marker(3, pid=8, commit=False)._replace(first_offset=0)
    assert state.marked(told, 1000) == AbortedRow(8, 0, 3, 4)
    assert state.marked(marker(4, epoch=2, commit=False), 1000) is None, "nothing was open"


@pytest.mark.parametrize(
    ("epoch", "open_epoch", "answer"),
    [
        (4, 3, True),
        (5, 3, True),
        (3, 3, InvalidProducerEpochError),
        (2, 3, InvalidProducerEpochError),
        (4, None, False),
        (5, None, True),
        (3, None, InvalidProducerEpochError),
    ],
)
def test_which_markers_a_leader_takes(
    epoch: int, open_epoch: int | None, answer: bool | type[Exception]
) -> None:
    """A transaction of epoch 3 is open, or the marker of epoch 4 has come."""
    state = ProducerState()
    state.applied(txn_header(0, 0, epoch=3), 1000, append_time=False)
    if open_epoch is None:
        state.marked(marker(1, epoch=4), 1000)
    if isinstance(answer, bool):
        assert state.check_marker(7, epoch, 0) is answer
    else:
        with pytest.raises(answer):
            state.check_marker(7, epoch, 0)
    assert state.check_marker(99, 0, 0), "of a producer without state"


def test_a_marker_with_a_number_leaves_epoch_sequences_and_batches() -> None:
    state = ProducerState()
    for number in range(3):
        state.applied(txn_header(number, number), 1000, append_time=False)
    state.marked(marker(3, epoch=0)._replace(number=1), 2000)
    entry = state.producers[7]
    assert (entry.epoch, entry.txn_first_offset, entry.marker_number) == (0, -1, 1)
    late = txn_header(2, 9)
    repeat = state.check(late, late.crc)
    assert repeat is not None
    assert repeat.base_offset == 2
    assert state.check(txn_header(3, 4), 0) is None
    with pytest.raises(OutOfOrderSequenceNumberError):
        state.check(txn_header(4, 4), 0)
    again = ProducerState()
    again.restore(state.encode())
    assert again.encode() == state.encode()
    assert not again.check_marker(7, 0, 0, 1)
    assert again.check_marker(7, 0, 0, 2)
    state.applied(txn_header(0, 4, epoch=1), 3000, append_time=False)
    assert state.producers[7].marker_number == -1, "a number belongs to an epoch"


def test_an_older_coordinator_is_refused_by_leaders_and_noted_by_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = ProducerState()
    state.marked(marker(0, epoch=1, coordinator=5), 1000)
    with pytest.raises(TransactionCoordinatorFencedError):
        state.check_marker(7, 2, 4)
    state.marked(marker(1, epoch=2, coordinator=4), 1000)
    assert state.producers[7].epoch == 2
    assert state.producers[7].coordinator_epoch == 5
    assert "marker_of_older_coordinator producer_id=7" in caplog.text


def test_a_cut_reopens_what_a_marker_had_ended() -> None:
    state = ProducerState()
    state.applied(txn_header(0, 0), 1000, append_time=False)
    state.applied(txn_header(0, 1, pid=8), 1000, append_time=False)
    state.marked(marker(2), 1000)
    assert state.truncate(2) == [7], "the log is to be asked"
    known = ProducerState()
    known.applied(txn_header(0, 0), 1000, append_time=False)
    state.adopt(known, [7])
    state.recount(2)
    assert state.transactions.first_open(-1) == 0
    assert state.transactions.snapshot() == []
    state.transactions.committed(100)
    assert state.transactions.first_undecided == 0


def test_a_cut_behind_a_marker_leaves_it() -> None:
    state = ProducerState()
    state.applied(txn_header(0, 0), 1000, append_time=False)
    state.marked(marker(1), 1000)
    assert state.truncate(2) == []
    assert state.producers[7].marker_offset == 1
    state.recount(2)
    assert state.transactions.snapshot() == [EndedTransaction(0, 1)]


def test_a_snapshot_keeps_transactions_and_uncommitted_markers() -> None:
    state = ProducerState()
    state.applied(txn_header(0, 0), 1000, append_time=False)
    state.applied(txn_header(0, 1, pid=8), 1000, append_time=False)
    state.marked(marker(2, coordinator=6), 1000)
    other = ProducerState()
    other.restore(state.encode())
    assert other.encode() == state.encode()
    assert other.transactions.first_undecided == 0
    assert other.transactions.snapshot() == [EndedTransaction(0, 2)]
    assert other.transactions.first_open(-1) == 1
    entry = other.producers[7]
    assert (entry.marker_offset, entry.coordinator_epoch) == (2, 6)


def test_a_snapshot_of_before_numbers_is_read() -> None:
    body = msgpack.packb([2, [[7, 3, 1000, [[0, 4, 10, 14, 1000, 77]], 10, 2, 9]], [[5, 9]]])
    state = ProducerState()
    state.restore(zlib.crc32(body).to_bytes(4, "big") + body)
    entry = state.producers[7]
    assert (entry.txn_first_offset, entry.marker_offset, entry.marker_number) == (10, 9, -1)
    assert state.transactions.open_count == 1


def test_a_snapshot_of_before_transactions_is_read() -> None:
    body = msgpack.packb([1, [[7, 3, 1000, [[0, 4, 10, 14, 1000, 77]]]]])
    state = ProducerState()
    state.restore(zlib.crc32(body).to_bytes(4, "big") + body)
    entry = state.producers[7]
    assert (entry.epoch, entry.last_sequence, entry.txn_first_offset) == (3, 4, -1)
    assert (entry.marker_offset, entry.coordinator_epoch) == (-1, -1)
    body = msgpack.packb([4, [], []])
    with pytest.raises(CheckpointError):
        state.restore(zlib.crc32(body).to_bytes(4, "big") + body)


def test_a_transaction_that_only_one_knows_of_is_a_contradiction() -> None:
    state, other = ProducerState(), ProducerState()
    state.applied(txn_header(0, 0), 1000, append_time=False)
    other.applied(txn_header(0, 0), 1000, append_time=False)
    assert state.contradiction(other) == ""
    other.producers[7].txn_first_offset = -1
    assert "a transaction from 0" in state.contradiction(other)


def test_a_captured_state_is_that_of_its_moment_whatever_comes_meanwhile() -> None:
    state = ProducerState()
    for pid in range(20):
        state.applied(header(0, offset=pid, pid=pid), 1, append_time=False)
    state.marked(Marker(ControlType.COMMIT, 3, 1, 0, 20, 3), 2)
    before = state.encode()
    capture = state.capture()
    capture.encode_some(5)
    for pid in (2, 10, 10, 99):  # encoded already, not yet, changed twice, not known then
        state.applied(header(1, offset=30, pid=pid), 3, append_time=False)
    state.marked(Marker(ControlType.ABORT, 11, 1, 0, 31, 11), 4)
    state.expire(1_000_000, 10)
    while capture.left:
        capture.encode_some(5)
    assert capture.encoded() == before
    restored = ProducerState()
    restored.restore(capture.encoded())
    assert restored.encode() == before


def test_of_a_producer_that_is_remembered_from_its_first_batch_on_nothing_older_is_looked_for() -> (
    None
):
    state = ProducerState()
    state.applied(header(0, offset=10, pid=1), 1, append_time=False)  # its first
    state.applied(header(5, offset=11, pid=2), 1, append_time=False)  # forgotten before
    state.applied(header(0, offset=12, pid=3, epoch=1), 1, append_time=False)  # had another epoch
    for number in range(BATCHES_MAX):  # more than are remembered may have been before
        state.applied(header(number, offset=13 + number, pid=4), 1, append_time=False)
    assert state.truncate(10) == [2, 3, 4]
    assert not state.producers
