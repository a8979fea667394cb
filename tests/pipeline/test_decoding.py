"""Keys and values are decoded as text and as JSON, with what cannot be decoded among them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from typing import Any

import pyarrow as pa
import pytest

from oncelog import ColumnBatch
from pyspark_oncelog.decoding import DecodeError, Misfits, decode

STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string())])
NOTHING = {"a": None, "b": None}


def decoded(values: Sequence[bytes | None], kind: str, type_: Any, mode: str = "permissive") -> Any:
    batch = ColumnBatch("t", 4, range(10, 10 + len(values)), [0] * len(values), None, values, None)
    raw = pa.array(values, pa.binary())
    misfits = Misfits(lambda text: True)
    field = pa.field("value", type_)
    utc = timezone.utc  # noqa: UP017
    made = decode(raw, kind, field, mode, [batch], lambda: utc, misfits)
    assert made.type == type_
    return made.to_pylist(), [text is not None for text in misfits.taken(len(values))]


def test_text() -> None:
    assert decoded([b"a", None, b""], "string", pa.string()) == (["a", None, ""], [False] * 3)


def test_what_is_no_text() -> None:
    values = [b"a", b"\xff", None]
    assert decoded(values, "string", pa.string()) == (["a", None, None], [False, True, False])
    with pytest.raises(DecodeError, match="the value of t-4 at offset 11 cannot be decoded"):
        decoded(values, "string", pa.string(), "failfast")


def test_json() -> None:
    values = [b'{"a": 1, "b": "x", "c": 9}', None, b"{}"]
    assert decoded(values, "json", STRUCT) == ([{"a": 1, "b": "x"}, None, NOTHING], [False] * 3)


@pytest.mark.parametrize("bad", [b"{", b"[1]", b"nonsense", b"\xff", b'"x"', b"null"])
def test_what_is_no_json_has_no_fields(bad: bytes) -> None:
    values = [b'{"a": 1}', bad, b'{"a": 2}']
    expected = [{"a": 1, "b": None}, NOTHING, {"a": 2, "b": None}]
    assert decoded(values, "json", STRUCT) == (expected, [False, True, False])
    with pytest.raises(DecodeError, match="offset 11"):
        decoded(values, "json", STRUCT, "failfast")


def test_a_field_that_does_not_fit_leaves_the_others() -> None:
    values = [b'{"a": 15.5, "b": "x"}', b'{"a": 12.0, "b": "y"}', b'{"a": 3, "b": "z"}']
    fields, misfits = decoded(values, "json", STRUCT)
    assert fields == [{"a": None, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": "z"}]
    assert misfits == [True, True, False]
    with pytest.raises(DecodeError, match=r"offset 10 cannot be decoded: a: 15.5 is no BIGINT"):
        decoded(values, "json", STRUCT, "failfast")


def test_documents_over_several_lines() -> None:
    values = [b'{\n"a": 1\n}', b'{"a": 2}\n\n{"a": 3}', b"", b" \n"]
    found = [{"a": 1, "b": None}, {"a": 2, "b": None}, None, None]
    assert decoded(values, "json", STRUCT) == (found, [False] * 4)
    assert decoded(values, "json", STRUCT, "failfast") == (found, [False] * 4)
