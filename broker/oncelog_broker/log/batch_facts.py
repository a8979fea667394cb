"""The header of a batch becomes words here, for tools and for who asks over the wire."""

from __future__ import annotations

from oncelog_protocol.messages.log_description import (
    MARKER_ABORT,
    MARKER_COMMIT,
    MARKER_UNKNOWN,
    DescribedBatch,
)
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError
from oncelog_protocol.records.control import ControlType, Marker, decode_marker
from oncelog_runtime.files import File

MARKER_BYTES_MAX = 256
"""No marker is larger."""

_WORDS = {ControlType.COMMIT: MARKER_COMMIT, ControlType.ABORT: MARKER_ABORT}


def codec_name(header: BatchHeader) -> str:
    """Return the name of the codec, or its number where it has none."""
    try:
        return header.codec.name.lower()
    except CorruptBatchError:
        return f"unknown ({header.codec_id})"


def read_marker(file: File, position: int, header: BatchHeader) -> Marker:
    """Return the marker that a control batch is.

    :raises CorruptBatchError: it is none that is known.
    :raises OSError: the file cannot be read.
    """
    if header.size_bytes > MARKER_BYTES_MAX:
        raise CorruptBatchError(f"marker: {header.size_bytes} bytes")
    return decode_marker(file.read_at(position, header.size_bytes), verify=False)


def described_batch(file: File, segment: int, position: int, header: BatchHeader) -> DescribedBatch:
    """Return what is told of a batch that lies at a byte of the file of a segment. Raises
    OSError."""
    marker = ""
    if header.is_control:
        try:
            marker = _WORDS[read_marker(file, position, header).control_type]
        except CorruptBatchError:
            marker = MARKER_UNKNOWN
    return DescribedBatch(
        segment,
        position,
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.size_bytes,
        header.leader_epoch,
        codec_name(header),
        header.timestamp_type.name.lower(),
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        marker,
    )
