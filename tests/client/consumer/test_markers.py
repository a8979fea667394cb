"""Markers are told of, and batches that are none are not."""

from __future__ import annotations

import pytest

from oncelog.consumer.markers import TransactionMarker, read_marker
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import ControlType, encode_marker
from oncelog_protocol.types import TopicPartition

TP = TopicPartition("t", 3)


@pytest.mark.parametrize("how", ControlType)
def test_what_a_marker_says(how: ControlType) -> None:
    batch = encode_marker(
        how,
        producer_id=7,
        producer_epoch=2,
        coordinator_epoch=4,
        timestamp_ms=1000,
        base_offset=9,
    )
    assert read_marker(TP, batch) == TransactionMarker(
        "t", 3, 9, 1000, how is ControlType.COMMIT, 7, 2, 4
    )


def test_what_is_none() -> None:
    with pytest.raises(CorruptBatchError):
        read_marker(TP, encode_batch([b"a record"], timestamps=1000))
