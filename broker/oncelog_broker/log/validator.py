"""A batch is checked here before it goes into the log. Pure.

It is the leader's check of one batch of a client before it gets its offsets, and the follower's of
what its leader sent. Rules for clients:

- they write the format of their listener: ours (magic 1), or Kafka's (magic 2). So nobody smuggles
  in a body that its readers do not expect;
- only the header and the CRC are read; of the body no more than its first bytes, which must fit the
  codec and, uncompressed, the record count, and its last one: a column of offsets is written by
  compaction only, and one that a client wrote would stop its readers. Of Kafka's body it is the
  length of the first record. Anything deeper in the body is the business of the consumer's decoder,
  which is bounded. Compacted topics are the exception: their keys must be there;
- bits that only the broker may set (control bit, append-time bit) are refused, and the
  transactional bit without a producer; base offset and leader epoch are overwritten whatever they
  say;
- a timestamp from the future beyond the topic's allowance is refused: it would spoil retention.
"""

from __future__ import annotations

from typing import NoReturn

from oncelog_broker.log.compaction import is_hole, rest_of_hole
from oncelog_broker.log.key_check import KeyCheck
from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from oncelog_protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    KAFKA_MAGIC,
    MAGIC,
    MAGIC_OFFSET,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatchError,
    iter_headers,
    parse_header,
    verify_crc,
)
from oncelog_protocol.records.compression import Codec, CodecUnavailableError
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.records.kafka_body import check_first_record
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import NO_TIMESTAMP

_BODY_ARRAY = 0x95
"""It is msgpack for an array of the five columns."""
_NIL = 0xC0
_FIXARRAY = 0x90
_ARRAY16 = 0xDC
_ARRAY32 = 0xDD

_STREAM_MAGIC: dict[int, bytes] = {
    Codec.GZIP: b"\x1f\x8b",
    Codec.LZ4: b"\x04\x22\x4d\x18",
    Codec.ZSTD: b"\x28\xb5\x2f\xfd",
}


def validate_client_batch(
    batch: memoryview,
    config: TopicConfig,
    now_ms: int,
    latest_ms: int | None = None,
    *,
    magic: int = MAGIC,
    keys: KeyCheck | None = None,
) -> BatchHeader:
    """Check exactly one batch and return its header; nothing is changed. It may be as late as
    ``latest_ms`` already, by a clock that is in doubt; None means that the clock is not. ``magic``
    is that of the format that the listener takes. ``keys`` is the check of its keys, where it has
    been begun already.

    Raises MessageTooLargeError, RecordListTooLargeError, CorruptMessageError (CRC, length,
    structure), InvalidRecordError, InvalidTimestampError, UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError.
    """
    header = _check_format(batch, config, magic)
    _check_timestamps(header, config, now_ms, now_ms if latest_ms is None else latest_ms)
    if config.is_compacted:
        _check_keys(batch, header, keys)
    return header


def begin_key_check(batch: memoryview, config: TopicConfig, magic: int) -> KeyCheck | None:
    """Return the check of a client's batch for keys, to be done in steps; see
    :func:`validate_client_batch`. None: it needs no check that takes long, or is refused anyway.
    """
    if magic != KAFKA_MAGIC or not config.is_compacted:
        return None
    try:
        header = _check_format(batch, config, magic)
    except ApiError:
        return None
    return KeyCheck(batch, header)


def _check_format(batch: memoryview, config: TopicConfig, magic: int) -> BatchHeader:
    size = len(batch)
    if size > config.max_message_bytes:
        raise MessageTooLargeError(
            f"a batch of {size} bytes, max_message_bytes is {config.max_message_bytes}"
        )
    if size > config.segment_bytes:
        raise RecordListTooLargeError(
            f"a batch of {size} bytes, segment_bytes is {config.segment_bytes}"
        )
    if size > MAGIC_OFFSET and batch[MAGIC_OFFSET] != magic:
        _refuse_format(batch[MAGIC_OFFSET], magic)
    try:
        header = parse_header(batch)
        verify_crc(batch)
    except CorruptBatchError as error:
        raise CorruptMessageError(str(error)) from error
    attributes = header.attributes
    if attributes & ~CODEC_MASK and (
        attributes & ~CODEC_MASK != TRANSACTIONAL_BIT or header.producer_id < 0
    ):
        _refuse_attributes(attributes)
    _check_count(header)
    # Some clients of Kafka number the batches of no producer, as Kafka lets them.
    if header.producer_id != -1 or magic != KAFKA_MAGIC:
        _check_producer(header)
    _check_body(batch, attributes & CODEC_MASK, header.record_count, magic)
    return header


def check_replicated_batches(
    batches: memoryview, log_end_offset: int, *, may_straddle: bool
) -> list[tuple[int, BatchHeader]]:
    """Check what a leader sent, whole, before any of it is written: (position, header) each.

    A partial batch at the end is left out. Offsets continue at ``log_end_offset`` and epochs do not
    go back; the first batch may begin below the end when ``may_straddle``, because a log may start
    inside a batch, or when it is a hole, which the leader's compaction has made of several. Raises
    CorruptMessageError, OffsetOutOfRangeError.
    """
    expected, epoch = log_end_offset, 0
    found: list[tuple[int, BatchHeader]] = []
    try:
        for position, header in iter_headers(batches):
            verify_crc(batches[position : position + header.size_bytes])
            base = header.base_offset
            straddles = not found and base < expected <= header.last_offset
            straddles = straddles and (may_straddle or is_hole(header))
            if base != expected and not straddles:
                raise OffsetOutOfRangeError(f"offset {base} where {expected} was to come")
            if header.leader_epoch < epoch:
                raise CorruptMessageError(
                    f"epoch {header.leader_epoch} at offset {base} after epoch {epoch}"
                )
            expected, epoch = header.next_offset, header.leader_epoch
            found.append((position, header))
    except CorruptBatchError as error:
        raise CorruptMessageError(str(error)) from error
    return found


def take_replicated_batches(
    batches: memoryview, log_end_offset: int, *, empty: bool
) -> tuple[memoryview, list[tuple[int, BatchHeader]]]:
    """Return the part of the leader's batches that goes into a log, checked, and (position, header)
    of each.

    It checks as :func:`check_replicated_batches`, for a log that is ``empty`` or not. If it is not,
    a hole that begins below its end loses the part that the log has.
    """
    found = check_replicated_batches(batches, log_end_offset, may_straddle=empty)
    if empty or not found or found[0][1].base_offset == log_end_offset:
        return batches, found
    header = found[0][1]
    data = memoryview(rest_of_hole(header, log_end_offset) + bytes(batches[header.size_bytes :]))
    return data, list(iter_headers(data))


def _refuse_format(found: int, magic: int) -> None:
    """Refuse another format than that of the listener, if it is one: else the header says more."""
    if found <= KAFKA_MAGIC:
        raise UnsupportedForMessageFormatError(
            f"batch: magic {found}, this listener takes magic {magic}"
        )


def _refuse_attributes(attributes: int) -> NoReturn:
    if attributes & CONTROL_BIT:
        raise InvalidRecordError("control batches are written by brokers only")
    if attributes & TRANSACTIONAL_BIT:
        raise InvalidRecordError("a transactional batch without a producer")
    if attributes & TIMESTAMP_TYPE_BIT:
        raise InvalidTimestampError("the append-time bit is set by brokers only")
    raise InvalidRecordError(f"reserved attribute bits: {attributes:#06x}")


def _check_count(header: BatchHeader) -> None:
    """Check that offsets have no gaps, which only compaction makes."""
    count = header.record_count
    if count != header.last_offset_delta + 1 or count < 1:
        raise InvalidRecordError(
            f"{count} records with a last offset delta of {header.last_offset_delta}"
        )


def _check_producer(header: BatchHeader) -> None:
    if header.producer_id == header.producer_epoch == header.base_sequence == -1:
        return
    if header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0:
        raise InvalidRecordError(
            f"producer id {header.producer_id} with epoch {header.producer_epoch}"
            f" and sequence {header.base_sequence}"
        )


def _check_timestamps(
    header: BatchHeader, config: TopicConfig, now_ms: int, latest_ms: int
) -> None:
    base, newest = header.base_timestamp, header.max_timestamp
    if config.uses_append_time:
        return
    if newest > latest_ms + config.message_timestamp_after_max_ms:
        raise InvalidTimestampError(
            f"timestamp {newest} is {newest - latest_ms} ms ahead of the leader's checked clock"
            f" ({latest_ms}), message_timestamp_after_max_ms is"
            f" {config.message_timestamp_after_max_ms}"
        )
    if base < NO_TIMESTAMP or newest < base:
        raise InvalidTimestampError(f"timestamps from {base} to {newest}")
    if newest != NO_TIMESTAMP and now_ms - base > config.message_timestamp_before_max_ms:
        raise InvalidTimestampError(
            f"timestamp {base} is {now_ms - base} ms behind the leader's checked clock ({now_ms}),"
            f" message_timestamp_before_max_ms is {config.message_timestamp_before_max_ms}"
        )


def _check_body(batch: memoryview, codec_id: int, count: int, magic: int) -> None:
    if magic == KAFKA_MAGIC and codec_id in (Codec.NONE, Codec.SNAPPY):
        # Snappy begins with anything: a block has no magic.
        if codec_id == Codec.NONE:
            _check_kafka_body(batch[HEADER_BYTES:], count)
        return
    if codec_id == Codec.NONE:
        start = HEADER_BYTES + 1
        if len(batch) < start + 1 or batch[HEADER_BYTES] != _BODY_ARRAY:
            raise InvalidRecordError("the body is not an array of five columns")
        kind = batch[start]
        if kind & 0xF0 == _FIXARRAY:
            values = kind & 0x0F
        elif kind == _ARRAY16:
            values = int.from_bytes(batch[start + 1 : start + 3], "big")
        elif kind == _ARRAY32:
            values = int.from_bytes(batch[start + 1 : start + 5], "big")
        else:
            values = -1
        if values != count:
            raise InvalidRecordError(f"{count} records in the header, {values} in the body")
        if batch[len(batch) - 1] != _NIL:
            raise InvalidRecordError("the body does not end with a column of offsets that is nil")
        return
    begins = _STREAM_MAGIC.get(codec_id)
    if begins is None:
        raise UnsupportedCompressionTypeError(f"codec {codec_id} is not known")
    if batch[HEADER_BYTES : HEADER_BYTES + len(begins)] != begins:
        raise InvalidRecordError(f"the body is not a stream of codec {codec_id}")


def _check_kafka_body(body: memoryview, count: int) -> None:
    try:
        check_first_record(body, count)
    except CorruptBatchError as error:
        raise InvalidRecordError(str(error)) from error


def _check_keys(batch: memoryview, header: BatchHeader, check: KeyCheck | None) -> None:
    if header.magic == KAFKA_MAGIC:
        (check or KeyCheck(batch, header)).verdict(header)
        return
    try:
        keys = decode_batch(batch, verify=False, header=header).keys
    except CorruptBatchError as error:
        raise InvalidRecordError(str(error)) from error
    except CodecUnavailableError as error:
        raise UnsupportedCompressionTypeError(str(error)) from error
    if keys is None or None in keys:
        keyless = [n for n in range(header.record_count) if keys is None or keys[n] is None]
        raise InvalidRecordError("a record without a key in a compacted topic", keyless)
