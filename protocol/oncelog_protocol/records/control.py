"""Control batches are the commit and abort markers that end a transaction in one partition.

A marker is a batch with the control and the transactional bit and one record. Its key is
``version:i16 type:i16``, its value ``version:i16 coordinator_epoch:i32``, as in Kafka; the producer
id and epoch of the ended transaction are in the batch header.

A leader that knows where the transaction begins in its log writes version 1 of the value, which
goes on with ``first_offset:i64``: so each segment tells by itself which ranges were aborted.
Version 2 goes on with ``number:i64``: the epoch stays, and the marker ends the transaction with
that number under it; the first one has 1. It is for clients of Kafka that keep their epoch.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.types import NO_EPOCH, NO_TXN_NUMBER, Buffer

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VALUE_1 = struct.Struct(">hiq")
_VALUE_2 = struct.Struct(">hiqq")
_VERSIONS = {_VALUE.size: 0, _VALUE_1.size: 1, _VALUE_2.size: 2}
"""A value of each version has a size of its own."""
_VERSION = 0
_NO_OFFSET = -1


class ControlType(IntEnum):
    """It says how a transaction ended."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """It is one marker, as it lies in a log."""

    control_type: ControlType
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    offset: int
    timestamp_ms: int
    first_offset: int = _NO_OFFSET
    """The transaction begins at this offset of the log; -1: it is not told, or it has nothing
    there."""
    number: int = NO_TXN_NUMBER
    """It ends the transaction with this number under its epoch; -1: its epoch is above that of what
    it ends."""


def encode_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    first_offset: int = _NO_OFFSET,
    number: int = NO_TXN_NUMBER,
) -> bytearray:
    """Return the batch that ends the transaction of ``producer_id``.

    :raises LocalProtocolError: a number that does not fit its field.
    """
    try:
        key = _KEY.pack(_VERSION, control_type)
        if number >= 0:
            value = _VALUE_2.pack(2, coordinator_epoch, first_offset, number)
        elif first_offset < 0:
            value = _VALUE.pack(_VERSION, coordinator_epoch)
        else:
            value = _VALUE_1.pack(1, coordinator_epoch, first_offset)
    except struct.error as exc:
        raise LocalProtocolError(f"marker: {exc}") from exc
    return encode_batch(
        [value],
        keys=[key],
        timestamps=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def plain_record(marker: Marker) -> tuple[bytes, bytes]:
    """Return key and value of a marker's record in version 0, which Kafka's readers know."""
    key = _KEY.pack(_VERSION, marker.control_type)
    return key, _VALUE.pack(_VERSION, marker.coordinator_epoch)


def decode_marker(batch: Buffer, *, verify: bool = True) -> Marker:
    """Return the marker that ``batch`` is.

    :raises CorruptBatchError: not a control batch of one record, or a version or type that is not
        known.
    """
    columns = decode_batch(batch, verify=verify)
    header = columns.header
    key = columns.keys[0] if columns.keys else None
    value = columns.values[0] if len(columns.values) == 1 else None
    if not header.is_control or key is None or value is None:
        raise CorruptBatchError("marker: not a control batch of one record")
    if len(key) != _KEY.size or len(value) not in _VERSIONS:
        raise CorruptBatchError("marker: a key or value of another size")
    key_version, number = _KEY.unpack(key)
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    first_offset, txn_number = _NO_OFFSET, NO_TXN_NUMBER
    if len(value) == _VALUE_1.size:
        first_offset = _VALUE_1.unpack(value)[2]
    elif len(value) == _VALUE_2.size:
        _, _, first_offset, txn_number = _VALUE_2.unpack(value)
    if key_version != _VERSION or value_version != _VERSIONS[len(value)]:
        raise CorruptBatchError(f"marker: versions {key_version} and {value_version}")
    try:
        control_type = ControlType(number)
    except ValueError:
        raise CorruptBatchError(f"marker: type {number}") from None
    return Marker(
        control_type,
        header.producer_id,
        header.producer_epoch,
        coordinator_epoch,
        header.base_offset,
        header.base_timestamp,
        first_offset,
        txn_number,
    )
