"""Records of the internal topic are written and read, and what is none of them is refused."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.coordinator.group.records import (
    DepartedFact,
    GroupFact,
    OffsetFact,
    OffsetRecord,
    PendingFact,
    PendingOffset,
    SavedGroup,
    SavedMember,
    decode_record,
    departed_record,
    group_record,
    offset_record,
    pending_record,
)
from oncelog_broker.coordinator.result import CoordinatorRecord, RecordFormatError
from oncelog_protocol.types import TopicPartition

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
OFFSETS = st.builds(OffsetRecord, INT64, INT32, NAMES, INT64)
MEMBERS = st.builds(
    SavedMember,
    NAMES,
    st.none() | NAMES,
    NAMES,
    NAMES,
    INT32,
    INT32,
    st.binary(max_size=20),
    st.binary(max_size=20),
)
GROUPS = st.builds(
    SavedGroup,
    INT32,
    NAMES,
    st.none() | NAMES,
    st.none() | NAMES,
    INT64,
    st.lists(MEMBERS, max_size=3).map(tuple),
)
PENDING = st.builds(PendingOffset, INT32, INT64, INT32, NAMES, INT64)
TP = TopicPartition("t", 3)


@given(NAMES, NAMES, st.integers(0, 2**31 - 1), st.none() | OFFSETS)
def test_offsets(group: str, topic: str, partition: int, value: OffsetRecord | None) -> None:
    tp = TopicPartition(topic, partition)
    record = offset_record(group, tp, value)
    assert (record.value is None) == (value is None)
    assert decode_record(record) == OffsetFact(group, tp, value)


@given(NAMES, NAMES, INT32, INT64, st.none() | PENDING)
def test_pending_offsets(
    group: str, topic: str, partition: int, producer_id: int, value: PendingOffset | None
) -> None:
    tp = TopicPartition(topic, partition)
    record = pending_record(group, tp, producer_id, value)
    assert (record.value is None) == (value is None)
    assert decode_record(record) == PendingFact(group, tp, producer_id, value)


@given(NAMES, st.none() | GROUPS)
def test_groups(group: str, value: SavedGroup | None) -> None:
    assert decode_record(group_record(group, value)) == GroupFact(group, value)


@given(NAMES, NAMES, st.none() | INT32)
def test_departures(group: str, member_id: str, generation: int | None) -> None:
    record = departed_record(group, member_id, generation)
    assert (record.value is None) == (generation is None)
    assert decode_record(record) == DepartedFact(group, member_id, generation)


def test_keys_of_one_fact_are_the_same_bytes() -> None:
    """Compaction and tombstones go by them."""
    old = offset_record("g", TP, OffsetRecord(1, 0, "", 5))
    assert old.key == offset_record("g", TP, None).key
    assert old.key != group_record("g", None).key
    pending = pending_record("g", TP, 7, PendingOffset(1, 0, 0, "", 5))
    assert pending.key == pending_record("g", TP, 7, None).key
    assert pending.key != pending_record("g", TP, 8, None).key
    assert departed_record("g", "m", 3).key == departed_record("g", "m", None).key
    assert departed_record("g", "m", 3).key != departed_record("g", "n", 3).key


def test_what_older_releases_wrote_has_no_topic_id() -> None:
    key = offset_record("g", TP, None).key
    fact = decode_record(CoordinatorRecord(key, msgpack.packb([0, 5, 1, "m", 9])))
    assert fact == OffsetFact("g", TP, OffsetRecord(5, 1, "m", 9, ""))
    fact = decode_record(CoordinatorRecord(PENDING_KEY, msgpack.packb([0, 2, 5, 1, "m", 9])))
    assert fact == PendingFact("g", TP, 8, PendingOffset(2, 5, 1, "m", 9, ""))


def test_newer_versions_are_taken() -> None:
    key = offset_record("g", TP, None).key
    value = msgpack.packb([7, 5, 1, "m", 9, "id", "something new"])
    fact = decode_record(CoordinatorRecord(key, value))
    assert fact == OffsetFact("g", TP, OffsetRecord(5, 1, "m", 9, "id"))
    value = msgpack.packb([7, 2, 5, 1, "m", 9, "id", 3, "something new"])
    fact = decode_record(CoordinatorRecord(PENDING_KEY, value))
    assert fact == PendingFact("g", TP, 8, PendingOffset(2, 5, 1, "m", 9, "id", 3))
    fact = decode_record(CoordinatorRecord(DEPARTED_KEY, msgpack.packb([7, 5, "something new"])))
    assert fact == DepartedFact("g", "m", 5)
    member = ["m", None, "c", "h", 1, 2, b"s", b"a", "new"]
    value = msgpack.packb([7, 1, "consumer", "range", "m", 3, [member], "new"])
    fact = decode_record(CoordinatorRecord(group_record("g", None).key, value))
    assert isinstance(fact, GroupFact)
    assert fact.saved is not None
    assert fact.saved.members[0] == SavedMember("m", None, "c", "h", 1, 2, b"s", b"a")


def test_newer_kinds_are_left_alone() -> None:
    assert decode_record(CoordinatorRecord(msgpack.packb([99, "x"]), b"?")) is None


OFFSET_KEY = offset_record("g", TP, None).key
GROUP_KEY = group_record("g", None).key
PENDING_KEY = pending_record("g", TP, 8, None).key
DEPARTED_KEY = departed_record("g", "m", None).key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\xc1", None),
        (msgpack.packb([]), None),
        (msgpack.packb(["1", "g"]), None),
        (msgpack.packb(7), None),
        (msgpack.packb([1, "g", "t"]), None),
        (msgpack.packb([1, "g", "t", "3"]), None),
        (msgpack.packb([1, "g", "t", True]), None),
        (msgpack.packb([2, 5]), None),
        (msgpack.packb([3, "g", "t", 3]), None),
        (msgpack.packb([3, "g", "t", 3, "8"]), None),
        (msgpack.packb([4, "g"]), None),
        (msgpack.packb([4, "g", 5]), None),
        (DEPARTED_KEY, b""),
        (DEPARTED_KEY, msgpack.packb([0])),
        (DEPARTED_KEY, msgpack.packb([0, "1"])),
        (PENDING_KEY, b""),
        (PENDING_KEY, msgpack.packb([0, 1, 2, 3, ""])),
        (PENDING_KEY, msgpack.packb([0, 1, "2", 3, "", 5])),
        (OFFSET_KEY, b""),
        (OFFSET_KEY, b"\xc1"),
        (OFFSET_KEY, msgpack.packb(None)),
        (OFFSET_KEY, msgpack.packb([0, 1])),
        (OFFSET_KEY, msgpack.packb([0, "1", 0, "", 0])),
        (GROUP_KEY, msgpack.packb([0, 1, "c", None, None, 0])),
        (GROUP_KEY, msgpack.packb([0, 1, "c", 5, None, 0, []])),
        (GROUP_KEY, msgpack.packb([0, 1, "c", None, None, 0, [["m"]]])),
        (GROUP_KEY, msgpack.packb([0, 1, "c", None, None, 0, ["m"]])),
        (GROUP_KEY, msgpack.packb([0, 1, "c", None, None, 0, [5]])),
        (
            GROUP_KEY,
            msgpack.packb([0, 1, "c", None, None, 0, [["m", 5, "c", "h", 1, 2, b"", b""]]]),
        ),
    ],
)
def test_what_no_coordinator_has_written(key: bytes, value: bytes | None) -> None:
    with pytest.raises(RecordFormatError):
        decode_record(CoordinatorRecord(key, value))


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_any_bytes(key: bytes, value: bytes | None) -> None:
    try:
        decode_record(CoordinatorRecord(key, value))
    except RecordFormatError:
        pass


@given(st.sampled_from([OFFSET_KEY, GROUP_KEY, PENDING_KEY, DEPARTED_KEY]), st.binary(max_size=60))
def test_any_value(key: bytes, value: bytes) -> None:
    try:
        decode_record(CoordinatorRecord(key, value))
    except RecordFormatError:
        pass
