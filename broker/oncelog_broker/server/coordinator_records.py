"""The records of coordinators are read from the batches of their partitions.

Control batches, and what compaction left of batches, hold nothing and are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_protocol.records.batch import CorruptBatchError, iter_headers, verify_crc
from oncelog_protocol.records.decode import RecordColumns, decode_batch
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

READ_BYTES = 32 * 1024
"""So much is read and decoded in one turn of the loop: some milliseconds, were it all batches of
one record. One batch may be larger."""


def records_in(data: memoryview, offset: int) -> tuple[list[CoordinatorRecord], int]:
    """Return the records of whole batches from ``offset`` on, and the offset that follows them.

    :raises CorruptBatchError: a batch does not hold.
    """
    records: list[CoordinatorRecord] = []
    for position, header in iter_headers(data, whole=True):
        batch = data[position : position + header.size_bytes]
        if not header.base_offset <= offset < header.next_offset:
            # The CRC does not cover the offset; in no log is there one left out.
            raise CorruptBatchError(f"offset {header.base_offset}, not {offset}")
        if header.record_count and not header.is_control:  # compaction leaves holes
            records += _records(decode_batch(batch, header=header), offset)
        else:
            verify_crc(batch)
        offset = header.next_offset
    return records, offset


def _records(columns: RecordColumns, offset: int) -> Iterable[CoordinatorRecord]:
    """Return the records of one batch at or behind ``offset``; the log may start inside of it."""
    keys, values = columns.keys, columns.values
    if keys is None or None in keys:
        logger.error("records_without_keys", offset=columns.base_offset)
    elif columns.base_offset >= offset:
        return map(CoordinatorRecord, keys, values)  # type: ignore[arg-type]
    return [
        CoordinatorRecord(key, value)
        for at, key, value in zip(columns.offsets(), keys or (), values, strict=False)
        if key is not None and at >= offset
    ]
