"""These tests check the recorder of histories and its lines."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog import Consumer, HistoryRecorder, Producer
from oncelog.errors import DeliveryTimeoutError
from oncelog.history_events import HistoryEvent, MicroOp, event_of, json_lines, line_of
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster


def test_a_recorder_copies_what_it_is_given() -> None:
    events: list[HistoryEvent] = []
    recorder = HistoryRecorder("p1", events.append, lambda: 2.5, client="producer")
    values = [b"a", b"b"]
    number = recorder.invoke("send", "t", 3, values)
    values.clear()
    recorder.ok(number, range(7, 9))
    first = HistoryEvent(2.5, "p1", "producer", 1, "invoke", "send", sends(None, None))
    assert events == [first, first._replace(type="ok", mops=sends(7, 8))]


def sends(*offsets: int | None) -> tuple[MicroOp, ...]:
    pairs = zip((b"a", b"b"), offsets, strict=True)
    return tuple(MicroOp("send", "t", 3, value, offset) for value, offset in pairs)


def test_an_acknowledgement_without_offsets_knows_none() -> None:
    """With acks=0 the broker answers nothing."""
    events: list[HistoryEvent] = []
    recorder = HistoryRecorder("p1", events.append, lambda: 0.0)
    recorder.ok(recorder.invoke("send", "t", 0, [b"a"]), ())
    assert events[1].mops == (), "the invocation's stand"


def test_errors_are_written_down() -> None:
    events: list[HistoryEvent] = []
    recorder = HistoryRecorder("p1", events.append, lambda: 0.0)
    error = DeliveryTimeoutError("too late", definite=False)
    recorder.info(recorder.invoke("send", "t", 0, [b"a"]), error)
    recorder.fail(recorder.invoke("poll", "t", 0, ()), error)
    ends = [(event.type, event.f, event.note) for event in events[1::2]]
    told = "DeliveryTimeoutError: too late"
    assert ends == [("info", "send", told), ("fail", "poll", told)]


def test_a_member_of_a_group_says_what_it_commits_and_owns() -> None:
    events: list[HistoryEvent] = []
    recorder = HistoryRecorder("p1", events.append, lambda: 0.0)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    recorder.owned("assigned", "g", "m", 3, [first, second])
    number = recorder.invoke_group("commit", "g", "m", 3, {first: 5, second: 0})
    recorder.ok(number, ())
    asked = recorder.invoke_group("committed", "g", "m", 3, {first: None, second: None})
    recorder.ok(asked, [5, None])
    recorder.owned("lost", "g", "m", 3, [])
    told = [
        (event.type, event.f, [(mop.kind, *mop[1:3], mop.offset) for mop in event.mops])
        for event in events
    ]
    assert told == [
        ("ok", "assigned", [("own", "t", 0, None), ("own", "t", 1, None)]),
        ("invoke", "commit", [("commit", "t", 0, 5), ("commit", "t", 1, 0)]),
        ("ok", "commit", []),
        ("invoke", "committed", [("committed", "t", 0, None), ("committed", "t", 1, None)]),
        ("ok", "committed", [("committed", "t", 0, 5), ("committed", "t", 1, None)]),
        ("ok", "lost", []),
    ]
    assert {(event.group, event.member, event.generation) for event in events} == {("g", "m", 3)}
    assert [event_of(line_of(event)) for event in events] == events


def test_sends_and_commits_name_their_transaction() -> None:
    events: list[HistoryEvent] = []
    recorder = HistoryRecorder("p1", events.append, lambda: 0.0)
    txn = recorder.begin_txn("bank-1")
    send = recorder.invoke("send", "t", 0, [b"a"], txn)
    commit = recorder.invoke_group("commit", "g", "m", 3, {TopicPartition("t", 0): 5}, txn)
    recorder.ok(send, [4])
    recorder.ok(commit, ())
    recorder.ending_txn(txn, True, [b"bank-1/17"])
    recorder.ok(txn, ())
    assert [(event.type, event.f, event.txn) for event in events] == [
        ("invoke", "txn", -1),
        ("invoke", "send", txn),
        ("invoke", "commit", txn),
        ("ok", "send", txn),
        ("ok", "commit", txn),
        ("ok", "ending", txn),
        ("ok", "txn", -1),
    ]
    assert events[0].number == events[-1].number == txn
    assert {events[0].transactional_id, events[-1].transactional_id} == {"bank-1"}
    assert [mop.value for mop in events[5].mops] == [b"bank-1/17"]
    assert events[5].note == "commit"
    assert [event_of(line_of(event)) for event in events] == events


VALUES = st.one_of(st.none(), st.binary(max_size=20), st.text("ab/0'\"\\\n", max_size=9))
OPTIONAL = st.one_of(st.none(), st.integers(-1, 2**63 - 1))


@given(VALUES, OPTIONAL, OPTIONAL, st.text(max_size=10))
def test_lines_lose_nothing(
    value: bytes | str | None, offset: int | None, epoch: int | None, note: str
) -> None:
    raw = value.encode() if isinstance(value, str) else value
    mop = MicroOp("poll", "t", 0, raw, offset, epoch)
    event = HistoryEvent(0.1, "c1", "consumer", 1, "ok", "poll", (mop,), note)
    line = line_of(event)
    assert "\n" not in line
    assert event_of(line) == event


def test_a_line_reads_well() -> None:
    event = HistoryEvent(
        1.5, "p1", "producer", 7, "ok", "send", (MicroOp("send", "t", 0, b"t/0/1", 4),)
    )
    assert json.loads(line_of(event)) == {
        "time_s": 1.5,
        "process": "p1",
        "client": "producer",
        "number": 7,
        "type": "ok",
        "f": "send",
        "mops": [["send", "t", 0, "t/0/1", 4]],
    }


@pytest.mark.parametrize("line", ["", "x", "{}", "[]", "3", '{"mops": [[]]}', '{"mops": [[1]]}'])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        event_of(line)


async def test_clients_record_themselves() -> None:
    stream = io.StringIO()
    sink = json_lines(stream)
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        recorder = HistoryRecorder("p1", sink, lambda: 0.0, client="producer")
        servers, entropy = cluster.bootstrap, SeededEntropy(1)
        async with Producer(servers, entropy=entropy, history=recorder) as producer:
            await producer.send("t", b"one")
            await producer.send("t", b"two")
        reader = HistoryRecorder("c1", sink, lambda: 0.0, client="consumer")
        async with Consumer(
            "t",
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            entropy=entropy,
            history=reader,
        ) as consumer:
            assert [(await consumer.getone()).value for _ in range(2)] == [b"one", b"two"]
    events = [event_of(line) for line in stream.getvalue().splitlines()]
    ended = [event for event in events if event.type == "ok" and event.f in ("send", "poll")]
    assert [(event.f, *(mop[3:5] for mop in event.mops)) for event in ended] == [
        ("send", (b"one", 0)),
        ("send", (b"two", 1)),
        ("poll", (b"one", 0)),
        ("poll", (b"two", 1)),
    ]
