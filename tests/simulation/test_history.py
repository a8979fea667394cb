"""Histories pair events, index them, and are files of events."""

from __future__ import annotations

import io

import pytest

from oncelog.errors import DeliveryTimeoutError
from simulation.history import (
    History,
    HistoryEvent,
    HistoryRecorder,
    MicroOp,
    Op,
    Watermark,
    json_lines,
    place_of,
    value_of,
)
from simulation.stories import story, told_value

A, B, C = (told_value(name) for name in "abc")
X = ("x", 0)


class Recording:
    """Recorders share one list of events, with a clock that counts the events."""

    def __init__(self) -> None:
        self.events: list[HistoryEvent] = []

    def recorder(self, process: str) -> HistoryRecorder:
        return HistoryRecorder(process, self.events.append, lambda: float(len(self.events)))

    def history(self) -> History:
        return History.from_events(self.events)


def outcomes(history: History) -> list[tuple[str, str]]:
    return [(op.f, op.outcome) for op in history.ops]


def test_operations_are_paired_though_they_overlap() -> None:
    recording = Recording()
    producer, other = recording.recorder("p1"), recording.recorder("p2")
    first, second = producer.invoke("send", *X, [A]), producer.invoke("send", *X, [B])
    third = other.invoke("send", *X, [C])
    assert first == third, "numbers belong to their recorder"
    other.fail(third, DeliveryTimeoutError("x", definite=True))
    producer.info(second, DeliveryTimeoutError("x", definite=False))
    producer.ok(first, [5])
    history = recording.history()
    assert outcomes(history) == [("send", "ok"), ("send", "info"), ("send", "fail")]
    assert [op.index for op in history.ops] == [0, 1, 2]
    assert {value: write.offset for value, write in history.writes[X].items()} == {
        A: 5,
        B: None,
        C: None,
    }


def test_what_was_never_ended_is_info() -> None:
    recording = Recording()
    producer = recording.recorder("p1")
    producer.invoke("send", *X, [A])
    producer.crashed()
    assert outcomes(recording.history()) == [("send", "info"), ("crash", "info")]


def test_numbers_may_begin_anew_after_a_crash() -> None:
    recording = Recording()
    before = recording.recorder("p1")
    before.invoke("send", *X, [A])
    before.crashed()
    after = recording.recorder("p1")
    after.ok(after.invoke("send", *X, [B]), [0])
    history = recording.history()
    assert outcomes(history) == [("send", "info"), ("crash", "info"), ("send", "ok")]
    assert history.writes[X][A].op.outcome == "info"


def test_polls_moves_and_watermarks() -> None:
    recording = Recording()
    consumer = recording.recorder("c1")
    consumer.moved(*X, 3, "seek")
    consumer.watermark(*X, 2, 9, 5)
    consumer.ok(consumer.invoke("poll", *X, ()), [3, 4], [A, None])
    history = recording.history()
    assert [op.f for op in history.reading] == ["assign", "poll"]
    assert [(read.offset, read.value) for read in history.reads[X]] == [(3, A), (4, None)]
    assert history.ends == {X: 4}
    assert history.watermarks == [Watermark("c1/client", *X, 2, 9, None, 5)]


def test_the_order_of_a_partition_is_what_polls_and_acknowledgements_tell() -> None:
    history = story(
        """
        p1 send x a@0 b@1 d@4
        p1 send x c ?
        c1 poll x a@0 c@2
        """
    )
    assert history.order(X, acks=False).offsets == [0, 2]
    order = history.order(X, acks=True)
    assert order.offsets == [0, 1, 2, 4]
    assert list(order.between(0, 4)) == [1, 2]
    assert list(order.between(2, 4)) == list(order.between(4, 4)) == list(order.between(3, 1)) == []
    assert history.order(("z", 0), acks=True).offsets == []


def test_an_unknown_send_is_proven_by_an_ok_poll_only() -> None:
    history = story(
        """
        p1 send x a ?
        p1 send x b ?
        p1 send x c ?
        c1 poll x b@0
        c2 poll x c@1 ?
        """
    )
    assert [op.index for op in history.sending if op.index in history.proven] == [2]


def test_values_name_their_partitions() -> None:
    assert place_of(value_of("orders", 3, "p1", 17)) == ("orders", 3)
    assert place_of(b"orders/x/1") is None
    assert place_of(b"anything") is None


def test_a_history_survives_its_file() -> None:
    recording = Recording()
    stream = io.StringIO()
    write = json_lines(stream)
    producer = HistoryRecorder("p1", write, lambda: 1.5, client="producer")
    producer.ok(producer.invoke("send", *X, [A, b"\xff\n", None]), [0, 1, 2])
    producer.moved(*X, None, "assign")
    producer.watermark(*X, 1, 3, -1)
    producer.info(producer.invoke("send", *X, [B]), DeliveryTimeoutError("no", definite=False))
    assert len(stream.getvalue().splitlines()) == 6
    stream.seek(0)
    history = History.from_lines(stream)
    assert outcomes(history)[0] == ("send", "ok")
    assert history.ops[0].mops == (
        MicroOp("send", *X, A, 0),
        MicroOp("send", *X, b"\xff\n", 1),
        MicroOp("send", *X, None, 2),
    )
    end = history.ops[-1].end
    assert end is not None
    assert (end.time_s, end.note) == (1.5, "DeliveryTimeoutError: no")
    assert not recording.events


def test_the_torn_last_line_of_a_killed_process_is_left_out() -> None:
    stream = io.StringIO()
    recorder = HistoryRecorder("p1", json_lines(stream), lambda: 0.0)
    recorder.invoke("send", *X, [A])
    torn = io.StringIO(stream.getvalue() + stream.getvalue()[:20])
    assert outcomes(History.from_lines(torn)) == [("send", "info")]
    with pytest.raises(ValueError, match="not an event"):
        History.from_lines(io.StringIO('{"a": 1}\n'))


def test_operations_name_themselves() -> None:
    op: Op = story("p1 send x a@0").ops[0]
    assert str(op) == "send 0 of p1/producer"
