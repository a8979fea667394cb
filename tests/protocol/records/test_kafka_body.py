"""Kafka's records are read into the same columns as ours, and written from them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits
from oncelog_protocol.records.batch import (
    KAFKA_MAGIC,
    CorruptBatchError,
    assemble,
    parse_header,
)
from oncelog_protocol.records.builder import encode_batch, encode_columns
from oncelog_protocol.records.compression import NATIVE_CODECS, Codec
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.records.kafka_body import (
    KEYLESS_MAX,
    WORK_BYTES,
    BodyColumns,
    KeyScan,
    check_first_record,
    decode_body,
    encode_body,
)

T_MS = 1_700_000_000_000

MIXED = bytes.fromhex(
    "000000000000000000000059000000000206bc7a970000000000020000018bcfe568000000018bcfe67970ffffffff"
    "ffffffffffffffffffff0000000318000000026b0a76616c7565001a000902010104026802310268011800e0c50804"
    "00000204c3bc00"
)
"""kafka-python 3.0.12 wrote these three records, and the batches below."""
ALIKE = bytes.fromhex(
    "00000000000000000000004900000000022d1a827f0000000000020000018bcfe568000000018bcfe56800ffffffff"
    "ffffffffffffffffffff000000030e000000010261000e000002010262000e00000401026300"
)
GZIP = bytes.fromhex(
    "00000000000000000000005900000000023d75f8460001000000010000018bcfe568000000018bcfe56800ffffffff"
    "ffffffffffffffffffff000000021f8b0800bb53096b02ff2b62606060ca4e294bcc294d25896028026a244f27009f"
    "a698cd74000000"
)


def test_what_a_kafka_client_wrote_is_read() -> None:
    read = decode_batch(MIXED)
    assert read.header.magic == KAFKA_MAGIC
    assert read.values == [b"value", None, b""]
    assert read.keys == [b"k", None, b""]
    assert read.timestamps == [T_MS, T_MS - 5, T_MS + 70_000]
    assert read.headers == [(), (("h", b"1"), ("h", None)), (("ü", b""),)]
    assert read.offset_deltas is None
    alike = decode_batch(ALIKE)
    assert (alike.values, alike.keys, alike.timestamps) == ([b"a", b"b", b"c"], None, None)
    squeezed = decode_batch(GZIP)
    assert (squeezed.values, squeezed.keys) == ([b"value" * 10] * 2, [b"k", b"k"])


def test_what_is_written_is_what_a_kafka_client_writes() -> None:
    options = {"magic": KAFKA_MAGIC, "leader_epoch": 0}
    alike = encode_batch([b"a", b"b", b"c"], timestamps=T_MS, **options)  # type: ignore[arg-type]
    assert alike == ALIKE
    columns = decode_batch(MIXED)
    body = encode_columns(
        KAFKA_MAGIC,
        BodyColumns(columns.values, columns.keys, [0, -5, 70_000], columns.headers, None),
    )
    assert body == MIXED[61:]


BLOBS = st.none() | st.binary(max_size=5) | st.binary(min_size=60, max_size=130)
HEADERS = st.lists(st.tuples(st.text(max_size=3), BLOBS), max_size=3)
RECORDS = st.lists(st.tuples(BLOBS, BLOBS, st.integers(0, 2**62), HEADERS), min_size=1, max_size=20)


@given(RECORDS, st.sampled_from(NATIVE_CODECS))
def test_a_batch_of_either_format_holds_the_same(
    records: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
    codec: Codec,
) -> None:
    values, keys, times, headers = (list(column) for column in zip(*records, strict=True))
    ours, kafkas = (
        decode_batch(
            encode_batch(
                values, keys=keys, timestamps=times, headers=headers, codec=codec, magic=magic
            )
        )
        for magic in (1, KAFKA_MAGIC)
    )
    assert kafkas.values == ours.values
    assert kafkas.keys or [None] * len(values) == ours.keys
    assert kafkas.timestamp_list() == ours.timestamp_list()
    assert kafkas.headers == ours.headers
    assert list(kafkas.offsets()) == list(ours.offsets())


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 8191, 8192, 8193])
@pytest.mark.parametrize("size", [0, 1, 50, 58, 59, 100])
def test_records_of_one_shape_are_cut_by_strides(count: int, size: int) -> None:
    values: list[bytes | None] = [bytes([number % 251]) * size for number in range(count)]
    body = encode_body(BodyColumns(values, None, None, None, None))
    assert decode_body(body, count) == BodyColumns(values, None, None, None, None)
    assert parse_header(encode_batch(values, timestamps=0, magic=KAFKA_MAGIC)).record_count == count


ODD = [
    BodyColumns([b"aa", b"bb", b"cc"], [None, None, b"k"], None, None, None),
    BodyColumns([b"aa", b"bb", b"ccc"], None, None, None, None),
    BodyColumns([b"aa", b"bb", None], None, None, None, None),
    BodyColumns([b"aa", b"bb", b"cc"], None, [0, 0, 7], None, None),
    BodyColumns([b"aa", b"bb", b"cc"], None, None, [(), (), (("h", b"1"),)], None),
    BodyColumns([b"aa", b"bb", b"cc"], None, None, None, [0, 1, 5]),
    BodyColumns([b"aa", b"bb"], None, None, None, [3, 4]),
    BodyColumns([], None, None, None, None),
]


@pytest.mark.parametrize("columns", ODD)
def test_a_record_that_is_unlike_the_others_is_seen(columns: BodyColumns) -> None:
    assert decode_body(encode_body(columns), len(columns.values)) == columns


def test_the_last_records_may_be_gone() -> None:
    columns = BodyColumns([b"a", b"b"], None, None, None, None)
    header = parse_header(encode_batch([b"v"] * 4, timestamps=T_MS, magic=KAFKA_MAGIC))
    batch = assemble(header._replace(record_count=2), encode_body(columns))
    assert list(decode_batch(batch).offsets()) == [0, 1]


def test_gaps_of_compaction() -> None:
    batch = encode_batch([b"a", b"b"], timestamps=T_MS, offset_deltas=[1, 4], magic=KAFKA_MAGIC)
    assert list(decode_batch(batch).offsets()) == [1, 4]


ONE = encode_body(BodyColumns([b"value"], [b"k"], None, [(("h", b"v"),)], None))


@pytest.mark.parametrize(
    ("body", "count", "why"),
    [
        (b"", 1, "1 records in a body of 0 bytes"),
        (ONE[:-1], 1, "cut off"),
        (ONE + b"\0", 1, "1 bytes after"),
        (ONE, 2, "cut off"),
        (b"\x7e" + ONE[1:], 1, "cut off"),
        (b"\x01" + ONE[1:], 1, "has others"),
        (bytes([ONE[0] - 2]) + ONE[1:], 1, "has others"),
        (b"\xff" * 12, 1, "more than 5 bytes"),
        (b"\x20\0" + b"\xff" * 20, 1, "more than 10 bytes"),
        (b"\x0e\0\0\0\x03\x01\0\0", 1, "length of -2"),
        (b"\x10\0\0\0\x01\x01\x02\x01\x01", 1, "without a key"),
        (b"\x12\0\0\0\x01\x01\x02\x02\xff\x01", 1, "not UTF-8"),
        (b"\x0c\0\0\0\x01\x01\x01", 1, "-1 headers"),
        (b"\x0e\0\0\0\x01\x01\xfe\xff\x01", 1, "16383 headers"),
    ],
)
def test_bodies_made_to_hurt(body: bytes, count: int, why: str) -> None:
    with pytest.raises(CorruptBatchError, match=why):
        decode_body(body, count)


@given(st.binary(max_size=80), st.integers(0, 12))
def test_any_body_is_read_or_corrupt(body: bytes, count: int) -> None:
    try:
        decode_body(body, count)
    except CorruptBatchError:
        pass


def test_a_count_takes_no_memory() -> None:
    with pytest.raises(CorruptBatchError, match="records in a body"):
        decode_body(bytes(1000), limits.BATCH_RECORD_COUNT_MAX)


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1000])
@pytest.mark.parametrize("step", [1, 2, 100])
def test_records_without_a_key_are_found_some_at_a_time(step: int, size: int) -> None:
    keys = [b"k", None, b"", None, b"k" * 200]
    pair: tuple[str, bytes | None] = ("h", b"v")
    body = encode_body(BodyColumns([b"v"] * 5, keys, [0, 1, -70_000, 3, 4], [(pair,)] * 5, None))
    scan = KeyScan(cut(body, size), 5)
    while not scan.done:
        assert scan.step(step) < step or scan.done
    assert scan.keyless == [1, 3]
    assert scan.keyless_count == 2


@given(st.binary(max_size=80), st.integers(0, 12), st.integers(1, 90))
def test_keys_of_any_body_are_found_or_it_is_corrupt(body: bytes, count: int, size: int) -> None:
    whole, pieces = KeyScan([body], count), KeyScan(cut(body, size), count)
    try:
        whole.step(1000)
    except CorruptBatchError:
        with pytest.raises(CorruptBatchError):
            pieces.step(1000)
        return
    pieces.step(1000)
    assert whole.done
    assert pieces.done
    assert pieces.keyless == whole.keyless


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_scan_sees_what_is_cut_off_and_what_goes_on(size: int) -> None:
    body = encode_body(BodyColumns([b"abc"] * 3, None, None, None, None))
    for wrong in (body[:-1], body[:-4], body + b"\0", b""):
        with pytest.raises(CorruptBatchError):
            KeyScan(cut(wrong, size), 3).step(1000)


def test_a_scan_takes_no_more_pieces_than_its_work_allows() -> None:
    taken: list[int] = []
    body = encode_body(BodyColumns([b"v" * 900] * 100, None, None, None, None))

    def pieces() -> Iterator[bytes]:
        for number, piece in enumerate(cut(body, 4 * WORK_BYTES)):
            taken.append(number)
            yield piece

    scan = KeyScan(pieces(), 100)
    steps = 0
    while not scan.done:
        before = len(taken)
        scan.step(5)
        assert len(taken) - before <= 1  # a piece is 5 units of work
        steps += 1
    assert steps >= len(taken) == -(-len(body) // (4 * WORK_BYTES))


def test_so_many_records_without_keys_are_named_and_all_are_counted() -> None:
    count = KEYLESS_MAX + 5
    scan = KeyScan([encode_body(BodyColumns([b"v"] * count, None, None, None, None))], count)
    scan.step(10 * count)
    assert scan.keyless == list(range(KEYLESS_MAX))
    assert scan.keyless_count == count


@pytest.mark.parametrize("count", [1, 3])
def test_the_first_record_must_fit(count: int) -> None:
    body = encode_body(BodyColumns([b"a"] * count, None, None, None, None))
    check_first_record(body, count)
    for wrong in (b"", b"\xff" * 10, body[:-3], body + b"\0" if count == 1 else body[:-7]):
        with pytest.raises(CorruptBatchError):
            check_first_record(wrong, count)
