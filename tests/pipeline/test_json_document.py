"""One document is read by its schema; ``spark/test_from_json.py`` asks Spark whether it is so."""

from __future__ import annotations

from datetime import timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyspark_oncelog.json_document import Documents

UTC = timezone.utc  # noqa: UP017
INNER = pa.struct([("x", pa.int32()), ("y", pa.int32())])
KIND = pa.struct(
    [("a", pa.int32()), ("s", pa.string()), ("c", INNER), ("d", pa.list_(pa.int32())),
     ("e", pa.list_(INNER)), ("m", pa.map_(pa.string(), INNER))]
)  # fmt: skip


def read(document: str, kind: pa.DataType = KIND) -> tuple[Any, str | None]:
    value, problem = Documents(kind, UTC).read(document.encode("utf-8", "surrogatepass"))
    return pa.array([value], kind).to_pylist()[0], problem


def fields(document: str) -> dict[str, Any]:
    """Return those that are not null."""
    return {name: value for name, value in read(document)[0].items() if value is not None}


@pytest.mark.parametrize(
    ("document", "expected", "problem"),
    [
        ('{"a": 1, "s": "t"}', {"a": 1, "s": "t"}, None),
        ('{"a": 15.5, "s": "t"}', {"s": "t"}, "a: 15.5 is no INT"),
        ('{"c": {"x": "1", "y": 2}, "a": 3}', {"c": {"x": None, "y": 2}, "a": 3},
         "c.x: '1' is no INT"),
        ('{"c": 5, "a": 3}', {"a": 3}, "c: 5 is not an object"),
        ('{"d": [1, [], 2], "a": 3}', {"a": 3}, "d: an array is no INT"),
        ('{"d": [1, null], "a": 3}', {"d": [1, None], "a": 3}, None),
        ('{"e": [{"x": 1}, {"x": true}], "a": 3}',
         {"e": [{"x": 1, "y": None}, {"x": None, "y": None}], "a": 3}, "e[].x: true is no INT"),
        ('{"m": {"k": {"x": 1, "y": "2"}}}', {"m": [("k", {"x": 1, "y": None})]},
         "m{}.y: '2' is no INT"),
        ('{"m": {}, "e": [], "d": [ ]}', {"m": [], "e": [], "d": []}, None),
        ('{"a": 1, "a": 2}', {"a": 2}, None),
        ('{"a": 1, "a": "x"}', {"a": 1}, "a: 'x' is no INT"),
        ('{"a": 1, "a": null}', {}, None),
        ('{"c": null, "d": null, "m": null}', {}, None),
        ('{"s": { "k" : [ 1.10, "\\u00e9" ] } }', {"s": '{"k":[1.1,"é"]}'}, None),
        ('{"s": "\\ud800"}', {"s": "?"}, None),
        ('{"a": 1} and more', {"a": 1}, None),
        ('{"zz": [{"a": 2}, "}"], "a": 1}', {"a": 1}, None),
        ('{"a": 1, "c": {"x": 2', {}, "'' at 21 instead of , or }"),
        ('{"a": 1,}', {}, "'}' at 8 is no field"),
        ('{"a" 1}', {}, "no : at 5"),
        ("null", {}, "null is no document"),
        ("[1]", {}, "an array is not an object"),
    ],
)  # fmt: skip
def test_field_by_field(document: str, expected: dict[str, Any], problem: str | None) -> None:
    assert fields(document) == expected
    assert read(document)[1] == problem


def test_white_space_alone_is_null() -> None:
    assert Documents(KIND, UTC).read(b" \n") == (None, None)


def test_roots_that_are_no_struct() -> None:
    numbers = pa.list_(pa.int32())
    assert read("[1, null]", numbers) == ([1, None], None)
    assert read('[1, "x"]', numbers) == (None, "'x' is no INT")
    assert read('{"x": 1}', numbers)[0] is None
    assert read('{"x": 1}', pa.list_(INNER)) == ([{"x": 1, "y": None}], None)
    assert read('{"x": "1", "y": 2}', pa.list_(INNER)) == (
        [{"x": None, "y": 2}],
        "[].x: '1' is no INT",
    )
    assert read('{"k": 1}', pa.map_(pa.string(), pa.int8()))[0] == [("k", 1)]
    assert read("5", pa.int32()) == (None, "no column of type int32 is made from JSON")


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.int8(), "200", -56),
        (pa.int8(), "256", None),
        (pa.int16(), "32768", None),
        (pa.int64(), "9223372036854775808", None),
        (pa.int64(), "1" * 5000, None),
        (pa.float64(), "1e400", float("inf")),
        (pa.float64(), '"-INF"', float("-inf")),
        (pa.float64(), '"1.5"', None),
        (pa.float64(), "true", None),
        (pa.float32(), "16777217", 16777216.0),
        (pa.float32(), "1e39", float("inf")),
        (pa.float32(), "-1e400", float("-inf")),
        (pa.bool_(), "1", None),
        (pa.decimal128(5, 2), "1.245", Decimal("1.25")),
        (pa.decimal128(5, 2), '"1e2"', Decimal("100.00")),
        (pa.decimal128(7, 2), '"1,000.5"', Decimal("1000.50")),
        (pa.decimal128(5, 2), "999.995", None),
        (pa.decimal128(5, 2), '"1_0"', None),
        (pa.decimal128(5, 2), '"1e9999999999"', None),
        (pa.decimal128(38, 0), "1e38", None),
        (pa.binary(), '"AQI="', b"\x01\x02"),
        (pa.binary(), '"AQI"', None),
        (pa.binary(), '""', b""),
        (pa.duration("us"), "1", None),
    ],
)
def test_single_values(kind: pa.DataType, text: str, expected: Any) -> None:
    value, problem = read(f'{{"v": {text}}}', pa.struct([("v", kind)]))
    assert value == {"v": expected}
    assert (problem is None) is (expected is not None)


def test_times() -> None:
    kind = pa.struct(
        [("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us")), ("d", pa.date32())]
    )
    found = Documents(kind, UTC)
    assert found.read(b'{"t": 2, "n": "1970-01-01 00:00:01", "d": "1970-01-02"}')[0] == (
        2_000_000,
        1_000_000,
        1,
    )
    assert found.read(b'{"t": "1970", "n": 1, "d": 1}') == (
        (0, None, None),
        "n: 1 is no TIMESTAMP_NTZ",
    )
    assert found.read(b'{"t": 1.5, "d": "soon"}')[1] == "t: 1.5 is no TIMESTAMP"
    assert found.read(b'{"d": "soon"}')[1] == "d: 'soon' is no DATE"
    assert found.read(b'{"t": 9223372036854775807}')[0][0] == -1_000_000  # as Java counts


def test_what_is_no_text_is_marked() -> None:
    kind = pa.struct([("s", pa.string())])
    found, _ = Documents(kind, UTC).read(b'{"s": "a\xff\xed\xa0\x80b"}')
    assert found == ("a\ufffd\ufffdb",)


def test_depth_does_not_matter() -> None:
    deep = "[" * 50_000 + "]" * 50_000
    assert fields(f'{{"zz": {deep}, "s": {deep}, "a": 1}}') == {"s": deep, "a": 1}
