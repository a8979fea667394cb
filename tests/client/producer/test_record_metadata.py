"""These tests check where the records of a list are."""

from __future__ import annotations

from oncelog.producer.record_metadata import BatchMetadata, WrittenRange


def test_metadata_of_many() -> None:
    metadata = BatchMetadata("t", (WrittenRange(0, 10, range(2)), WrittenRange(1, -1, range(2, 3))))
    assert metadata.record_count == 3
    assert list(metadata.positions()) == [(0, 0, 10), (1, 0, 11), (2, 1, -1)]
