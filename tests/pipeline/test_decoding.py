"""Keys and values as text and as JSON, with what cannot be decoded among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from oncelog import ColumnBatch
from pyspark_oncelog.decoding import DecodeError, decode

STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])


def decoded(values: Sequence[bytes | None], kind: str, type_: Any, mode: str = "permissive") -> Any:
    batch = ColumnBatch("t", 4, range(10, 10 + len(values)), [0] * len(values), None, values, None)
    raw = pa.array(values, pa.binary())
    made = decode(raw, kind, pa.field("value", type_), mode, [batch])
    assert made.type == type_
    return made.to_pylist()


def test_text() -> None:
    assert decoded([b"a", None, b""], "string", pa.string()) == ["a", None, ""]


def test_what_is_no_text() -> None:
    values = [b"a", b"\xff", None]
    assert decoded(values, "string", pa.string()) == ["a", None, None]
    with pytest.raises(DecodeError, match="the value of t-4 at offset 11 cannot be decoded"):
        decoded(values, "string", pa.string(), "failfast")


def test_json() -> None:
    values = [b'{"a": 1, "b": "x", "c": 9}', None, b"{}"]
    expected = [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]
    assert decoded(values, "json", STRUCT) == expected


@pytest.mark.parametrize("bad", [b"", b"{", b"[1]", b'{"a": "x"}', b"nonsense", b"\xff", b'"x"'])
def test_what_is_no_json_is_null_or_named(bad: bytes) -> None:
    values = [b'{"a": 1}', bad, b'{"a": 2}']
    expected = [{"a": 1, "b": None}, None, {"a": 2, "b": None}]
    assert decoded(values, "json", STRUCT) == expected
    with pytest.raises(DecodeError, match="offset 11"):
        decoded(values, "json", STRUCT, "failfast")


def test_documents_over_several_lines() -> None:
    values = [b'{\n"a": 1\n}', b'{"a": 2}\n\n{"a": 3}']
    assert decoded(values, "json", STRUCT) == [{"a": 1, "b": None}, None]


def test_a_number_that_does_not_fit() -> None:
    narrow = pa.struct([("a", pa.int8())])
    assert decoded([b'{"a": 300}', b'{"a": 3}'], "json", narrow) == [None, {"a": 3}]
