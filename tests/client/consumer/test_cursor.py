"""The batch in hand needs no bookkeeping for positions, and iterations can be cut short."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from oncelog.consumer import cursor as module
from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.cursor import Cursor
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import Reset, TopicPartitionState
from oncelog_protocol.types import TopicPartition

DATA = memoryview(b"batch")


def batch_of(offsets: range, values: list[bytes | None]) -> ColumnBatch:
    return ColumnBatch("t", 0, offsets, [0] * len(values), None, values, None)


def make(
    count: int = 5,
    *,
    end: tuple[int, int] = (30, 4),
    note: Callable[[ColumnBatch], None] | None = None,
) -> tuple[TopicPartitionState, Cursor]:
    state = TopicPartitionState(TopicPartition("t", 0))
    state.seek(10)
    # Offsets with gaps, and more of them after the last record: compaction leaves both.
    batch = batch_of(range(10, 10 + 2 * count, 2), [b"%d" % n for n in range(count)])
    return state, Cursor(state, batch, 4, DATA, end, note)


def test_the_position_is_behind_what_was_handed_out() -> None:
    state, cursor = make()
    cursor.settle()
    assert (state.offset, state.epoch) == (10, -1), "nothing was"
    next(cursor.iterator)
    cursor.settle()
    assert (state.offset, state.epoch) == (12, 4)
    assert cursor.left == 4
    list(cursor.iterator)
    cursor.settle()
    assert (state.offset, cursor.left) == (30, 0)


def test_what_was_handed_out_is_told_once() -> None:
    told: list[list[int]] = []
    state, cursor = make(note=lambda some: told.append(list(some.offsets)))
    cursor.settle()
    assert told == []
    list(cursor.take(2))
    cursor.settle()
    cursor.settle()
    assert told == [[10, 12]]
    next(cursor.iterator)
    state.lose(Reset.EARLIEST)  # the records in hand are handed out all the same
    cursor.settle()
    assert told == [[10, 12], [14]]
    cursor.stop()
    cursor.settle()
    assert told == [[10, 12], [14]], "the rest went back"


def test_a_record_is_made_when_the_loop_asks_for_it() -> None:
    """The garbage collector looks at all objects, once enough records wait in a list."""
    batch = batch_of(range(1000), [b"distinct"] * 1000)
    state = make()[0]
    cursor = Cursor(state, batch, 4, DATA, (1000, 4))
    gc.collect()
    others = sum(type(thing) is Record for thing in gc.get_objects())
    record = next(cursor.iterator)
    assert record.value == b"distinct"
    assert sum(type(thing) is Record for thing in gc.get_objects()) == others + 1


def test_take() -> None:
    state, cursor = make()
    assert [record.value for record in cursor.take(2)] == [b"0", b"1"]
    cursor.settle()
    assert state.offset == 14
    assert len(list(cursor.take(100))) == 3
    cursor.settle()
    assert state.offset == 30
    assert not list(cursor.take(1))


def test_stop_ends_a_running_loop_and_gives_the_rest_back() -> None:
    state, cursor = make()
    seen = []
    for record in cursor.iterator:
        seen.append(record.value)
        if len(seen) == 2:
            cursor.stop()
    assert seen == [b"0", b"1"]
    assert state.offset == 14
    assert [chunk.data for chunk in state.chunks] == [DATA]
    assert state.buffered == len(DATA)
    assert next(cursor.iterator, None) is None


def test_a_batch_that_was_used_up_gives_nothing_back() -> None:
    state, cursor = make()
    list(cursor.iterator)
    cursor.stop()
    assert not state.chunks
    assert state.offset == 30


def test_after_a_seek_the_cursor_has_no_say() -> None:
    state, cursor = make()
    next(cursor.iterator)
    state.seek(500)
    cursor.settle()
    cursor.stop()
    assert state.offset == 500
    assert not state.chunks


def test_what_is_hidden_behind_the_batch_is_stepped_over_with_it() -> None:
    state, cursor = make(end=(37, 5))
    next(cursor.iterator)
    assert cursor.safe() == (10, -1)
    cursor.settle()
    assert (state.offset, state.epoch) == (12, 4)
    cursor.stop()
    assert state.chunks[0].end == (37, 5), "whoever decodes the rest knows it too"
    state, cursor = make(end=(37, 5))
    list(cursor.iterator)
    cursor.came_back()
    assert cursor.safe() == (37, 5)
    cursor.settle()
    assert (state.offset, state.epoch) == (37, 5)


@pytest.mark.parametrize("handed_out", [0, 1, 3, 5])
def test_another_thread_gets_nothing_behind_the_position(
    handed_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that iterates may be anywhere: here it goes on whenever somebody looks."""
    state, cursor = make()
    taken = [next(cursor.iterator).offset for _ in range(handed_out)]

    def length_hint(iterator: Any) -> int:
        left: int = iterator.__length_hint__()
        taken.extend(record.offset for record in islice(cursor.iterator, 1))
        return left

    monkeypatch.setattr(module, "length_hint", length_hint)
    cursor.stop()
    taken += [record.offset for record in cursor.iterator]
    assert state.offset == (30 if len(taken) == 5 else 10 + 2 * len(taken))


def test_position_and_iterator_never_part() -> None:
    """The same is done with a real thread: many rounds, and switches as often as can be."""
    batch = batch_of(range(20_000), [b""] * 20_000)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for turn in range(100):
            state = TopicPartitionState(TopicPartition("t", 0))
            state.seek(0)
            cursor = Cursor(state, batch, 0, DATA, (20_000, 0))
            seen = [-1]
            begun = threading.Event()

            def iterate(
                cursor: Cursor = cursor, seen: list[int] = seen, begun: threading.Event = begun
            ) -> None:
                for record in cursor.iterator:
                    seen[0] = record.offset
                    begun.set()

            thread = threading.Thread(target=iterate)
            thread.start()
            begun.wait()
            for _ in range(turn):
                pass  # somewhere else each time
            cursor.stop()
            thread.join()
            assert state.offset == seen[0] + 1
    finally:
        sys.setswitchinterval(interval)
