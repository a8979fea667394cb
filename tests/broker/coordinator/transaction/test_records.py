"""Facts become bytes and come back."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.coordinator.result import CoordinatorRecord, RecordFormatError
from oncelog_broker.coordinator.transaction.records import (
    IdFact,
    OrdinalsFact,
    SavedShared,
    SavedTransaction,
    SavedWriter,
    WriterFact,
    by_topic,
    decode_record,
    id_record,
    ordinals_record,
    writer_record,
)
from oncelog_broker.coordinator.transaction.states import Ending, TxnState
from oncelog_protocol.types import TopicPartition

NUMBER = st.integers(-1, 2**62)
PARTITIONS = st.lists(
    st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 9)), unique=True
).map(lambda found: tuple(sorted(found)))
ORDINARY = st.builds(
    SavedTransaction,
    st.sampled_from(TxnState),
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    st.sampled_from(Ending),
    NUMBER,
    NUMBER,
    PARTITIONS,
    NUMBER,
)
SHARED = st.builds(
    SavedShared,
    st.sampled_from(TxnState),
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    NUMBER,
    st.sampled_from(Ending),
    st.lists(NUMBER).map(tuple),
)


@given(st.text(max_size=9), ORDINARY | SHARED)
def test_an_id_comes_back(name: str, saved: SavedTransaction | SavedShared) -> None:
    assert decode_record(id_record(name, saved)) == IdFact(name, saved)
    gone = id_record(name, None)
    assert gone.key == id_record(name, saved).key
    assert decode_record(gone) == IdFact(name, None)


@given(st.text(max_size=9), NUMBER, st.text(max_size=9), NUMBER, PARTITIONS)
def test_a_writer_comes_back(
    name: str, producer_id: int, writer: str, ordinal: int, partitions: tuple[TopicPartition, ...]
) -> None:
    saved = SavedWriter(ordinal, writer, partitions)
    assert decode_record(writer_record(name, producer_id, saved)) == WriterFact(
        name, producer_id, saved
    )
    assert decode_record(writer_record(name, producer_id, None)) == WriterFact(
        name, producer_id, None
    )


def test_ordinals_come_back() -> None:
    assert decode_record(ordinals_record(12)) == OrdinalsFact(12)


def test_fields_of_newer_releases_are_ignored() -> None:
    saved = SavedTransaction(TxnState.EMPTY, 1, 2, 3)
    record = id_record("t", saved)
    assert record.value is not None
    longer = msgpack.packb([*msgpack.unpackb(record.value), "new", 7])
    assert decode_record(CoordinatorRecord(record.key, longer)) == IdFact("t", saved)


def test_keys_of_newer_releases_are_left_alone() -> None:
    assert decode_record(CoordinatorRecord(msgpack.packb([99, "t"]), b"")) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\xc1", b""),
        (msgpack.packb(["t"]), b""),
        (msgpack.packb([1]), None),
        (msgpack.packb([1, 7]), None),
        (msgpack.packb([1, "t"]), msgpack.packb([0])),
        (msgpack.packb([1, "t"]), msgpack.packb([0, 2, 0])),
        (msgpack.packb([1, "t"]), msgpack.packb([0, 0, 99, *[0] * 10, []])),
        (msgpack.packb([1, "t"]), msgpack.packb([0, 0, 0, "1", *[0] * 9, []])),
        (msgpack.packb([1, "t"]), msgpack.packb([0, 0, *[0] * 11, [["a", ["b"]]]])),
        (msgpack.packb([1, "t"]), msgpack.packb([0, 1, *[0] * 9, ["w"]])),
        (msgpack.packb([2, "t", "u"]), None),
        (msgpack.packb([2, "t", 1]), msgpack.packb([0, 1, 2, []])),
        (msgpack.packb([3]), None),
        (msgpack.packb([3]), msgpack.packb([0, "1"])),
    ],
)
def test_what_was_not_written_by_a_coordinator(key: bytes, value: bytes | None) -> None:
    with pytest.raises(RecordFormatError):
        decode_record(CoordinatorRecord(key, value))


def test_partitions_by_topic() -> None:
    partitions = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]
    assert by_topic(partitions) == [("b", [1, 0]), ("a", [0])]
