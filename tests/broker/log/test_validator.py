"""The validator takes what a client and a leader may append, and refuses everything else."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from crc32c import crc32c

from oncelog_broker.log.compaction import hole
from oncelog_broker.log.validator import (
    check_replicated_batches,
    take_replicated_batches,
    validate_client_batch,
)
from oncelog_protocol import limits
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
from oncelog_protocol.records.batch import CRC_END, CRC_OFFSET, HEADER_BYTES, KAFKA_MAGIC
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import NATIVE_CODECS, Codec
from support.logs import NOW_MS, batch, follower_batches, topic_config

ATTRIBUTES, LAST_DELTA, BASE_TIME, MAX_TIME = (21, ">H"), (23, ">i"), (27, ">q"), (35, ">q")
PRODUCER_ID, PRODUCER_EPOCH, SEQUENCE, COUNT = (43, ">q"), (51, ">h"), (53, ">i"), (57, ">i")
LENGTH, MAGIC = (8, ">I"), (16, ">B")

Field = tuple[int, str]
Edit = Callable[[bytearray], bytearray]


def put(field: Field, value: int) -> Edit:
    """Write one header field and make the CRC good again: a lie, not damage."""

    def edit(data: bytearray) -> bytearray:
        struct.pack_into(field[1], data, field[0], value)
        struct.pack_into(">I", data, CRC_OFFSET, crc32c(bytes(data[CRC_END:])))
        return data

    return edit


def body(content: bytes, count: int = 1) -> Edit:
    """Put another body, with lengths, count and CRC made good."""

    def edit(data: bytearray) -> bytearray:
        data[HEADER_BYTES:] = content
        put(LENGTH, len(data) - 12)(data)
        put(COUNT, count)(data)
        return put(LAST_DELTA, count - 1)(data)

    return edit


def damaged(position: int) -> Edit:
    def edit(data: bytearray) -> bytearray:
        data[position] ^= 0x40
        return data

    return edit


def cut(size: int) -> Edit:
    return lambda data: data[:size]


def longer(data: bytearray) -> bytearray:
    return data + b"x"


def twice(data: bytearray) -> bytearray:
    return data + data


def nothing(data: bytearray) -> bytearray:
    return bytearray()


REFUSED: list[tuple[str, Edit, type[ApiError]]] = [
    ("wrong CRC", damaged(CRC_OFFSET), CorruptMessageError),
    ("flipped body", damaged(-1), CorruptMessageError),
    ("count above the deltas", put(COUNT, 9), CorruptMessageError),
    ("count below the deltas", put(COUNT, 1), InvalidRecordError),
    ("count 0", put(COUNT, 0), InvalidRecordError),
    ("count -1", put(COUNT, -1), CorruptMessageError),
    ("count 2^31-1", put(COUNT, 2**31 - 1), CorruptMessageError),
    ("count and delta lie together", body(b"\x95\x92\xc4\x01a\xc4\x01b", 3), InvalidRecordError),
    ("delta too large", put(LAST_DELTA, 7), InvalidRecordError),
    ("delta negative", put(LAST_DELTA, -1), CorruptMessageError),
    ("control bit", put(ATTRIBUTES, 0x20), InvalidRecordError),
    ("transactional bit without a transaction", put(ATTRIBUTES, 0x10), InvalidRecordError),
    ("append-time bit", put(ATTRIBUTES, 0x08), InvalidTimestampError),
    ("reserved bits", put(ATTRIBUTES, 0x8000), InvalidRecordError),
    ("producer id without epoch", put(PRODUCER_ID, 5), InvalidRecordError),
    ("epoch without producer id", put(PRODUCER_EPOCH, 5), InvalidRecordError),
    ("sequence without producer id", put(SEQUENCE, 0), InvalidRecordError),
    ("no bytes", nothing, CorruptMessageError),
    ("header only", cut(HEADER_BYTES), CorruptMessageError),
    (
        "a column of offsets",
        body(msgpack.packb([[b"a"] * 3, None, None, None, [0, 0, 0]]), 3),
        InvalidRecordError,
    ),
    ("values alone", body(b"\x95\x93\xc0\xc0\xc0\xc0\xc0\xc0\x07", 3), InvalidRecordError),
    ("rubbish behind the first bytes", body(b"\x95\x93" + b"\xff" * 20, 3), InvalidRecordError),
    ("empty body", body(b""), InvalidRecordError),
    ("two batches as one", twice, CorruptMessageError),
    ("bytes behind the batch", longer, CorruptMessageError),
    ("codec 2", put(ATTRIBUTES, 2), UnsupportedCompressionTypeError),
    ("codec 7", put(ATTRIBUTES, 7), UnsupportedCompressionTypeError),
    ("gzip over something else", put(ATTRIBUTES, Codec.GZIP), InvalidRecordError),
    ("lz4 over something else", put(ATTRIBUTES, Codec.LZ4), InvalidRecordError),
    ("zstd over something else", put(ATTRIBUTES, Codec.ZSTD), InvalidRecordError),
    ("body of another shape", body(b"\x94\x91\xc4\x01a"), InvalidRecordError),
    ("body a map", body(b"\x85\x91\xc4\x01a"), InvalidRecordError),
    ("values not an array", body(b"\x95\xc0"), InvalidRecordError),
    ("array32 claims 2^32-1", body(b"\x95\xdd\xff\xff\xff\xff"), InvalidRecordError),
    ("array header cut off", body(b"\x95\xdc\x00"), InvalidRecordError),
    ("far future", put(MAX_TIME, 253_402_300_799_000), InvalidTimestampError),
    ("a little too far", put(MAX_TIME, NOW_MS + 3_600_001), InvalidTimestampError),
    ("newest before first", put(MAX_TIME, NOW_MS - 1), InvalidTimestampError),
    ("before -1", put(BASE_TIME, -2), InvalidTimestampError),
    ("wrong magic", damaged(MAGIC[0]), CorruptMessageError),
    ("magic of Kafka's format", put(MAGIC, 2), UnsupportedForMessageFormatError),
    ("magic of an older format", put(MAGIC, 0), UnsupportedForMessageFormatError),
    ("magic of the future", put(MAGIC, 3), CorruptMessageError),
    ("length too small", put(LENGTH, 5), CorruptMessageError),
    ("length too large", put(LENGTH, 10_000), CorruptMessageError),
    ("length of 4 GiB", put(LENGTH, 2**32 - 1), CorruptMessageError),
]


@pytest.mark.parametrize(
    ("edit", "error"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_refused(edit: Edit, error: type[ApiError]) -> None:
    data = edit(encode_batch([b"a", b"b"], timestamps=NOW_MS))
    before = bytes(data)
    with pytest.raises(error):
        validate_client_batch(memoryview(data), topic_config(), NOW_MS)
    assert bytes(data) == before


@pytest.mark.parametrize("size", range(HEADER_BYTES + 1))
def test_every_short_batch_is_refused(size: int) -> None:
    data = encode_batch([b"a"], timestamps=NOW_MS)[:size]
    with pytest.raises(CorruptMessageError):
        validate_client_batch(memoryview(data), topic_config(), NOW_MS)


def test_every_bit_flip_behind_the_crc_is_noticed() -> None:
    good = encode_batch([b"a", b"b"], timestamps=NOW_MS)
    for position in range(CRC_OFFSET, len(good)):
        for bit in range(8):
            data = bytearray(good)
            data[position] ^= 1 << bit
            with pytest.raises(ApiError):
                validate_client_batch(memoryview(data), topic_config(), NOW_MS)


@pytest.mark.parametrize("codec", NATIVE_CODECS)
@pytest.mark.parametrize("count", [1, 15, 16, 70_000])
def test_accepted(codec: Codec, count: int) -> None:
    data = memoryview(encode_batch([b"x"] * count, timestamps=NOW_MS, codec=codec))
    header = validate_client_batch(data, topic_config(), NOW_MS)
    assert header.record_count == count


@pytest.mark.parametrize(
    "timestamps", [-1, 0, NOW_MS, NOW_MS + 3_600_000, [NOW_MS, NOW_MS - 5], [5, 4, 3]]
)
def test_timestamps_accepted(timestamps: int | list[int]) -> None:
    count = 1 if isinstance(timestamps, int) else len(timestamps)
    data = batch(*[b"v"] * count, timestamps=timestamps)
    validate_client_batch(data, topic_config(), NOW_MS)


def test_too_old_for_the_topic() -> None:
    config = topic_config(message_timestamp_before_max_ms=1000)
    validate_client_batch(batch(timestamps=NOW_MS - 1000), config, NOW_MS)
    validate_client_batch(batch(timestamps=-1), config, NOW_MS)
    with pytest.raises(InvalidTimestampError):
        validate_client_batch(batch(timestamps=NOW_MS - 1001), config, NOW_MS)


def test_a_leader_whose_clock_may_be_behind_takes_what_may_be_right() -> None:
    config, later_ms = topic_config(message_timestamp_after_max_ms=1000), NOW_MS + 7_200_000
    validate_client_batch(batch(timestamps=later_ms + 1000), config, NOW_MS, later_ms)
    with pytest.raises(InvalidTimestampError, match=r"1001 ms ahead of the leader's checked clock"):
        validate_client_batch(batch(timestamps=later_ms + 1001), config, NOW_MS, later_ms)


def test_append_time_topics_take_any_timestamp() -> None:
    config = topic_config(message_timestamp_type="LogAppendTime")
    validate_client_batch(batch(timestamps=2**60), config, NOW_MS)


def test_sizes() -> None:
    data = batch(b"x" * 2000)
    validate_client_batch(data, topic_config(max_message_bytes=len(data)), NOW_MS)
    with pytest.raises(MessageTooLargeError):
        validate_client_batch(data, topic_config(max_message_bytes=len(data) - 1), NOW_MS)
    validate_client_batch(data, topic_config(segment_bytes=len(data)), NOW_MS)
    with pytest.raises(RecordListTooLargeError):
        validate_client_batch(data, topic_config(segment_bytes=len(data) - 1), NOW_MS)


def test_a_bomb_costs_nothing_as_bodies_are_not_decompressed() -> None:
    data = bytearray(encode_batch([b"a"], timestamps=NOW_MS))
    bomb = b"\x28\xb5\x2f\xfd" + b"\xff" * 1000
    data = put(ATTRIBUTES, Codec.ZSTD)(body(bomb)(data))
    validate_client_batch(memoryview(data), topic_config(), NOW_MS)
    # Where keys must be looked at, decompression is bounded and the answer is a refusal.
    with pytest.raises(InvalidRecordError):
        validate_client_batch(memoryview(data), topic_config(cleanup_policy="compact"), NOW_MS)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_keys_of_compacted_topics(policy: str) -> None:
    config = topic_config(cleanup_policy=policy)
    validate_client_batch(batch(b"v", None, keys=[b"k", b"k"]), config, NOW_MS)
    for keys in (None, [b"k", None]):
        with pytest.raises(InvalidRecordError):
            validate_client_batch(batch(b"v", b"w", keys=keys), config, NOW_MS)


def test_null_values_and_keys_elsewhere() -> None:
    validate_client_batch(batch(None, b"w", keys=[None, b"k"]), topic_config(), NOW_MS)


def test_a_million_records_cost_no_more_than_their_bytes() -> None:
    config = topic_config(max_message_bytes=limits.BATCH_BYTES_MAX)
    count = limits.BATCH_RECORD_COUNT_MAX
    data = memoryview(encode_batch([b"x"] * count, timestamps=NOW_MS))
    assert validate_client_batch(data, config, NOW_MS).record_count == count


def test_producer_ids_are_let_through_when_whole() -> None:
    data = encode_batch([b"a"], timestamps=NOW_MS, producer_id=5, producer_epoch=0, base_sequence=0)
    assert validate_client_batch(memoryview(data), topic_config(), NOW_MS).producer_id == 5


def test_clients_of_kafka_may_number_the_batches_of_no_producer() -> None:
    data = encode_batch([b"a"], timestamps=NOW_MS, base_sequence=0, magic=KAFKA_MAGIC)
    validate_client_batch(memoryview(data), topic_config(), NOW_MS, magic=KAFKA_MAGIC)
    data = encode_batch(
        [b"a"], timestamps=NOW_MS, producer_id=5, producer_epoch=0, magic=KAFKA_MAGIC
    )
    with pytest.raises(InvalidRecordError, match="sequence -1"):
        validate_client_batch(memoryview(data), topic_config(), NOW_MS, magic=KAFKA_MAGIC)


def test_batches_of_a_leader() -> None:
    data = follower_batches((10, 2, 1), (12, 3, 1), (15, 1, 4))
    found = check_replicated_batches(data, 10, may_straddle=False)
    assert [header.base_offset for _, header in found] == [10, 12, 15]
    assert [header.leader_epoch for _, header in found] == [1, 1, 4]
    # A partial one at the end is left out.
    assert len(check_replicated_batches(data[:-1], 10, may_straddle=False)) == 2
    assert check_replicated_batches(data[:30], 10, may_straddle=False) == []
    assert check_replicated_batches(memoryview(b""), 10, may_straddle=False) == []


def test_batches_of_a_leader_that_do_not_continue() -> None:
    for specs in ([(11, 1, 1)], [(9, 2, 1)], [(10, 1, 1), (12, 1, 1)], [(10, 2, 1), (11, 1, 1)]):
        with pytest.raises(OffsetOutOfRangeError):
            check_replicated_batches(follower_batches(*specs), 10, may_straddle=False)


def test_the_first_batch_may_straddle_the_start_of_an_empty_log() -> None:
    data = follower_batches((8, 5, 1), (13, 1, 1))
    assert len(check_replicated_batches(data, 10, may_straddle=True)) == 2
    for specs in ([(8, 2, 1)], [(11, 1, 1)], [(10, 1, 1), (10, 2, 1)]):
        with pytest.raises(OffsetOutOfRangeError):
            check_replicated_batches(follower_batches(*specs), 10, may_straddle=True)


def test_batches_of_a_leader_that_are_damaged_or_go_back_in_epochs() -> None:
    data = follower_batches((10, 1, 3), (11, 1, 2))
    with pytest.raises(CorruptMessageError):
        check_replicated_batches(data, 10, may_straddle=False)
    data = follower_batches((10, 1, 3), (11, 1, 3))
    for position in (16, CRC_OFFSET, len(data) - 1):
        data[position] ^= 1
        with pytest.raises(CorruptMessageError):
            check_replicated_batches(data, 10, may_straddle=False)
        data[position] ^= 1
    with pytest.raises(CorruptMessageError):
        check_replicated_batches(follower_batches((10, 1, -1)), 10, may_straddle=False)


def test_a_hole_of_the_leader_loses_what_the_log_has() -> None:
    data = memoryview(hole(2, 10, 1, NOW_MS) + bytes(follower_batches((10, 1, 1))) + b"partial")
    taken, found = take_replicated_batches(data, 2, empty=False)
    assert taken is data
    assert [header.base_offset for _, header in found] == [2, 10]
    taken, found = take_replicated_batches(data, 7, empty=False)
    assert [header.base_offset for _, header in found] == [7, 10]
    assert [position for position, _ in found] == [0, found[0][1].size_bytes]
    assert check_replicated_batches(taken, 7, may_straddle=False) == found
    for end in (1, 10, 11):
        with pytest.raises(OffsetOutOfRangeError):
            take_replicated_batches(data, end, empty=False)
    taken, found = take_replicated_batches(data, 7, empty=True)
    assert (taken is data, found[0][1].base_offset) == (True, 2)


# ------------------------------------------------------------------------------ Kafka's format


def kafka_batch(*values: bytes | None, **options: Any) -> bytearray:
    return encode_batch(list(values), timestamps=NOW_MS, magic=KAFKA_MAGIC, **options)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [1, 2, 64, 3000])
def test_a_kafka_listener_takes_kafkas_batches_of_every_codec(codec: Codec, count: int) -> None:
    data = memoryview(kafka_batch(*[b"v"] * count, keys=[b"k"] * count, codec=codec))
    for config in (topic_config(), topic_config(cleanup_policy="compact")):
        header = validate_client_batch(data, config, NOW_MS, magic=KAFKA_MAGIC)
        assert header.record_count == count
    with pytest.raises(UnsupportedForMessageFormatError):
        validate_client_batch(data, topic_config(), NOW_MS)


KAFKA_REFUSED: list[tuple[str, Edit, type[ApiError]]] = [
    ("our own format", put(MAGIC, 1), UnsupportedForMessageFormatError),
    ("an older format", put(MAGIC, 0), UnsupportedForMessageFormatError),
    ("a format of the future", put(MAGIC, 3), CorruptMessageError),
    ("wrong CRC", damaged(CRC_OFFSET), CorruptMessageError),
    ("control bit", put(ATTRIBUTES, 0x20), InvalidRecordError),
    ("append-time bit", put(ATTRIBUTES, 0x08), InvalidTimestampError),
    ("delete horizon", put(ATTRIBUTES, 0x40), InvalidRecordError),
    ("codec 7", put(ATTRIBUTES, 7), UnsupportedCompressionTypeError),
    ("gzip over something else", put(ATTRIBUTES, Codec.GZIP), InvalidRecordError),
    ("no body", body(b""), InvalidRecordError),
    ("our own body", body(b"\x95\x91\xc4\x01a\xc0\xc0\xc0\xc0"), InvalidRecordError),
    ("a body behind the record", body(b"\x0e\0\0\0\x01\x02a\0\0"), InvalidRecordError),
    ("a record that is cut off", body(b"\x10\0\0\0\x01\x02a\0"), InvalidRecordError),
    ("no room for the second record", body(b"\x0e\0\0\0\x01\x02a\0", 2), InvalidRecordError),
]


@pytest.mark.parametrize(
    ("name", "edit", "error"), KAFKA_REFUSED, ids=[r[0] for r in KAFKA_REFUSED]
)
def test_a_kafka_listener_refuses(name: str, edit: Edit, error: type[ApiError]) -> None:
    data = memoryview(edit(kafka_batch(b"a")))
    with pytest.raises(error):
        validate_client_batch(data, topic_config(), NOW_MS, magic=KAFKA_MAGIC)


@pytest.mark.parametrize("magic", [1, KAFKA_MAGIC])
@pytest.mark.parametrize("keys", [None, [b"k", None, b"k", None], [None] * 4])
def test_records_without_keys_are_named(magic: int, keys: list[bytes | None] | None) -> None:
    data = memoryview(encode_batch([b"v"] * 4, keys=keys, timestamps=NOW_MS, magic=magic))
    with pytest.raises(InvalidRecordError) as refused:
        validate_client_batch(data, topic_config(cleanup_policy="compact"), NOW_MS, magic=magic)
    assert list(refused.value.records) == ([1, 3] if keys and keys[0] else [0, 1, 2, 3])


def test_a_kafka_body_that_lies_is_refused_where_keys_are_looked_at() -> None:
    data = memoryview(body(b"\x0e\0\0\0\x01\x02a\0\x0e\0\0\0\x01\x02a", 2)(kafka_batch(b"a", b"b")))
    validate_client_batch(data, topic_config(), NOW_MS, magic=KAFKA_MAGIC)
    with pytest.raises(InvalidRecordError, match="cut off"):
        validate_client_batch(
            data, topic_config(cleanup_policy="compact"), NOW_MS, magic=KAFKA_MAGIC
        )
