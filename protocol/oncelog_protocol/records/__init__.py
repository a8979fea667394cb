"""A record batch has a header that brokers read, and a body that only clients open."""

from oncelog_protocol.records.batch import (
    HEADER,
    HEADER_BYTES,
    KAFKA_MAGIC,
    MAGIC,
    BatchHeader,
    CorruptBatchError,
    TimestampType,
    assemble,
    iter_headers,
    parse_header,
    stamp,
    stamp_append_time,
    verify_crc,
)
from oncelog_protocol.records.builder import HeaderItems, encode_batch, estimate_bytes
from oncelog_protocol.records.compression import (
    Codec,
    CodecUnavailableError,
    CompressionError,
    compress,
    decompress,
)
from oncelog_protocol.records.control import ControlType, Marker, decode_marker, encode_marker
from oncelog_protocol.records.decode import Headers, RecordColumns, decode_batch

__all__ = [
    "HEADER",
    "HEADER_BYTES",
    "KAFKA_MAGIC",
    "MAGIC",
    "BatchHeader",
    "Codec",
    "CodecUnavailableError",
    "CompressionError",
    "ControlType",
    "CorruptBatchError",
    "HeaderItems",
    "Headers",
    "Marker",
    "RecordColumns",
    "TimestampType",
    "assemble",
    "compress",
    "decode_batch",
    "decode_marker",
    "decompress",
    "encode_batch",
    "encode_marker",
    "estimate_bytes",
    "iter_headers",
    "parse_header",
    "stamp",
    "stamp_append_time",
    "verify_crc",
]
