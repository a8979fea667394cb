"""Fuzz: whatever bytes a batch has, it is read or it is corrupt, at a bounded price."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits
from oncelog_protocol.packing import pack
from oncelog_protocol.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatchError,
    assemble,
    iter_headers,
    parse_header,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import (
    NATIVE_CODECS,
    Codec,
    CompressionError,
    compress,
    decompress,
)
from oncelog_protocol.records.control import decode_marker
from oncelog_protocol.records.decode import decode_batch
from support.messages import mutated

MIB = 2**20
CODECS = st.sampled_from(NATIVE_CODECS)
ITEMS = st.none() | st.binary(max_size=8) | st.integers(-5, 2**64 - 1) | st.text("ab", max_size=3)
COLUMN = st.none() | st.lists(ITEMS | st.lists(ITEMS, max_size=4), max_size=5)


def batches() -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda values, keyed, timed, headed, codec: bytes(
            encode_batch(
                values,
                keys=values if keyed else None,
                timestamps=list(range(len(values))) if timed else 5,
                headers=[[("k", value)] for value in values] if headed else None,
                codec=codec,
            )
        ),
        st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=6),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        CODECS,
    )


def read(data: bytes) -> None:
    """Put ``data`` through everything that reads batches."""
    for call in (parse_header, lambda d: list(iter_headers(d)), decode_batch, decode_marker):
        fault = ""
        try:
            call(data)
        except CorruptBatchError as exc:
            fault = str(exc)
        assert len(fault) < 500
    try:
        columns = decode_batch(data, verify=False)
    except CorruptBatchError:
        return
    count = columns.header.record_count
    assert len(columns) == len(columns.offsets()) == len(columns.timestamp_list()) == count
    for column in (columns.keys, columns.headers):
        assert column is None or len(column) == count


@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    read(data)


@given(data=st.data())
def test_batches_with_a_few_bytes_changed(data: st.DataObject) -> None:
    read(data.draw(mutated(data.draw(batches()))))


@given(
    fields=st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**32 - 1) | st.just(69),
        st.integers(-1, 5),
        st.just(1),
        st.just(0),
        st.integers(0, 2**16 - 1),
        st.integers(-2, 2**31 - 1) | st.just(1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**31), 2**31 - 1) | st.just(2),
    ),
    body=st.binary(max_size=30),
)
def test_any_header(fields: tuple[int, ...], body: bytes) -> None:
    read(bytes(assemble(BatchHeader(*fields), body)))


@given(columns=st.lists(COLUMN, max_size=6), count=st.integers(0, 5), codec=CODECS)
def test_any_columns(columns: list[Any], count: int, codec: Codec) -> None:
    header = BatchHeader(0, 0, 0, 1, 0, codec, max(count - 1, 0), 0, 0, -1, -1, -1, count)
    read(bytes(assemble(header, compress(codec, pack(columns)))))


@given(body=st.binary(max_size=100), count=st.integers(0, 2**20), codec=CODECS)
def test_any_body(body: bytes, count: int, codec: Codec) -> None:
    header = BatchHeader(0, 0, 0, 1, 0, codec, max(count - 1, 0), 0, 0, -1, -1, -1, count)
    read(bytes(assemble(header, body)))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda c: c.name)
@given(data=st.data())
def test_compressed_streams_with_a_few_bytes_changed(codec: Codec, data: st.DataObject) -> None:
    plain = data.draw(st.binary(max_size=300) | st.integers(0, 200_000).map(bytes))
    damaged = data.draw(mutated(compress(codec, plain)))
    tracemalloc.start()
    try:
        try:
            decompress(codec, damaged)
        except CompressionError:
            pass
        assert tracemalloc.get_traced_memory()[1] < 4 * limits.DECOMPRESSED_FREE_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda c: c.name)
@given(data=st.binary(max_size=100))
def test_any_bytes_as_a_stream(codec: Codec, data: bytes) -> None:
    try:
        decompress(codec, data)
    except CompressionError:
        pass


def test_the_fuzzers_have_something_to_change() -> None:
    assert len(encode_batch([b"a"], timestamps=1)) > HEADER_BYTES
