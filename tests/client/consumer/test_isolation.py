"""These tests check what is handed out of spans with markers and aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.consumer.fetch_plan import FetchVerdict, RequestedPartition, take_answer
from oncelog.consumer.isolation import ABORTED_BYTES, Sieve
from oncelog.consumer.subscription import TopicPartitionState
from oncelog_protocol.messages.fetch import AbortedTransaction, FetchPartitionResponse
from oncelog_protocol.records.batch import CorruptBatchError, iter_headers, parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import ControlType, encode_marker
from oncelog_protocol.schema import Span
from oncelog_protocol.types import TopicPartition


@dataclass
class Log:
    """It holds batches, and knows which offsets a reader at read_committed is to be handed."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    ends: list[int] = field(default_factory=list)
    """Behind each batch."""
    visible: list[int] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, marker's offset)."""
    open: dict[int, list[int]] = field(default_factory=dict)

    def append(self, producer_id: int = -1, count: int = 1, *, transactional: bool = True) -> None:
        batch = encode_batch(
            [b"v"] * count,
            timestamps=0,
            base_offset=self.end,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            transactional=transactional and producer_id >= 0,
        )
        offsets = list(range(self.end, self.end + count))
        if transactional and producer_id >= 0:
            self.open.setdefault(producer_id, []).extend(offsets)
        else:
            self.visible.extend(offsets)
        self.batches.append(bytes(batch))
        self.end += count
        self.ends.append(self.end)

    def finish(self, producer_id: int, *, commit: bool) -> None:
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = encode_marker(
            kind,
            producer_id=producer_id,
            producer_epoch=1,
            coordinator_epoch=0,
            timestamp_ms=0,
            base_offset=self.end,
        )
        offsets = self.open.pop(producer_id, [])
        if commit:
            self.visible.extend(offsets)
        elif offsets:
            self.aborted.append((producer_id, offsets[0], self.end))
        self.batches.append(bytes(marker))
        self.end += 1
        self.ends.append(self.end)

    @property
    def stable(self) -> int:
        return min((offsets[0] for offsets in self.open.values()), default=self.end)

    def answer(self, offset: int, count: int) -> tuple[FetchPartitionResponse, bytes]:
        """Return what a leader sends: so many batches, and aborted transactions that touch them."""
        index = bisect_right(self.ends, offset)
        fit = self.batches[index : index + count]
        stable = self.stable
        fit = [b for b in fit if parse_header(b).base_offset < stable]
        data = b"".join(fit)
        answer = FetchPartitionResponse(0, 0, self.end, self.stable, 0, Span(0, len(data)))
        if fit:
            upto = parse_header(fit[-1]).next_offset
            answer.aborted = [
                AbortedTransaction(producer_id, first)
                for producer_id, first, marker in self.aborted
                if first < upto and marker >= offset
            ]
        return answer, data


def read(log: Log, start: int, counts: list[int]) -> list[int]:
    """Return every offset that is handed out when so many batches at a time are fetched."""
    state = TopicPartitionState(TopicPartition("t", 0))
    state.seek(start)
    handed_out: list[int] = []
    turn = 0
    while True:
        answer, data = log.answer(state.fetch_offset, counts[turn % len(counts)])
        turn += 1
        if not data:
            return handed_out
        asked = RequestedPartition(state, state.version, state.fetch_offset)
        assert take_answer(asked, answer, memoryview(data)) == (FetchVerdict.OK, None)
        chunk = state.chunks.popleft()
        for position, header in iter_headers(chunk.data):
            batch = chunk.data[position : position + header.size_bytes]
            if chunk.sieve is None or not chunk.sieve.hides(header, batch):
                assert not header.is_control
                handed_out.extend(range(header.base_offset, header.next_offset))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["data", "plain", "commit", "abort"]), st.integers(0, 3), st.integers(1, 3)
    ),
    max_size=40,
)


@given(STEPS, st.integers(0, 60), st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_exactly_what_is_decided_and_not_aborted(
    steps: list[tuple[str, int, int]], start: int, counts: list[int]
) -> None:
    """Wherever reading begins and however the log is cut into answers."""
    log = Log()
    for kind, producer_id, count in steps:
        if kind == "data":
            log.append(producer_id, count)
        elif kind == "plain":
            log.append(-1 if count == 1 else producer_id + 10, count, transactional=False)
        else:
            log.finish(producer_id, commit=kind == "commit")
    whole = [b for b in log.batches if parse_header(b).next_offset > start]
    first = parse_header(whole[0]).base_offset if whole else start
    expected = [offset for offset in sorted(log.visible) if first <= offset < log.stable]
    assert read(log, start, counts) == expected


def test_spans_without_transactions_have_no_sieve() -> None:
    log = Log()
    log.append(count=3)
    log.append(7, transactional=False)
    state = TopicPartitionState(TopicPartition("t", 0))
    state.seek(0)
    answer, data = log.answer(0, 10)
    take_answer(RequestedPartition(state, state.version, 0), answer, memoryview(data))
    assert state.chunks[0].sieve is None
    assert state.buffered == len(data)


def test_a_batch_may_be_shown_again() -> None:
    log = Log()
    log.append(7, 2)
    log.finish(7, commit=False)
    log.append(7, 2)
    log.finish(7, commit=True)
    sieve = Sieve([AbortedTransaction(7, 0)])
    shown = [
        [sieve.hides(parse_header(batch), memoryview(batch)) for _ in range(2)]
        for batch in log.batches
    ]
    assert shown == [[True, True], [True, True], [False, False], [True, True]]


def test_a_marker_that_nobody_can_read_is_corrupt() -> None:
    batch = encode_batch(
        [b"?"], keys=[b"?"], timestamps=0, producer_id=7, producer_epoch=0, control=True
    )
    view = memoryview(bytes(batch))
    assert Sieve().hides(parse_header(view), view), "of no interest: nothing is being dropped"
    with pytest.raises(CorruptBatchError, match="size"):
        Sieve([AbortedTransaction(7, 0)]).hides(parse_header(view), view)


def test_ten_thousand_transactions_are_held_as_bytes_in_advance() -> None:
    """Open ones cost nothing, for nothing of them comes; aborted ones count against the buffer
    while their span is held, and go with it."""
    log = Log()
    for producer_id in range(10_000):
        log.append(producer_id)
    for producer_id in range(5_000):
        log.finish(producer_id, commit=False)
    state = TopicPartitionState(TopicPartition("t", 0))
    state.seek(4_000)  # in the middle of what is aborted
    answer, data = log.answer(4_000, 500)
    assert answer.aborted is not None
    assert len(answer.aborted) == 4_500, "of 10,000 only what touches the span"
    take_answer(RequestedPartition(state, state.version, 4_000), answer, memoryview(data))
    assert state.buffered == len(data) + 4_500 * ABORTED_BYTES
    assert read(log, 0, [1_000]) == []
    for producer_id in range(5_000, 10_000):
        log.finish(producer_id, commit=True)
    assert read(log, 4_000, [1_000]) == list(range(5_000, 10_000))
