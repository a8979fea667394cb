"""Records of coordinators are read from batches, and what is none is passed over."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.server.coordinator_records import records_in
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.records.builder import encode_batch


def batch(*pairs: tuple[bytes | None, bytes]) -> memoryview:
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return memoryview(encode_batch(values, keys=keys, timestamps=1))


def test_records_and_what_follows_them() -> None:
    found, end = records_in(batch((b"a", b"1"), (b"b", b"2")), 0)
    assert (found, end) == ([CoordinatorRecord(b"a", b"1"), CoordinatorRecord(b"b", b"2")], 2)


def test_a_start_inside_of_a_batch_and_a_record_without_a_key() -> None:
    found, end = records_in(batch((b"a", b"1"), (None, b"2"), (b"c", b"3")), 1)
    assert (found, end) == ([CoordinatorRecord(b"c", b"3")], 3)


def test_a_batch_of_other_offsets_does_not_hold() -> None:
    with pytest.raises(CorruptBatchError, match="offset 0, not 7"):
        records_in(batch((b"a", b"1")), 7)
