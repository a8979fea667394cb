"""JSON by the column agrees with JSON one by one; ``spark/test_from_json.py`` asks Spark."""

from __future__ import annotations

import json
from datetime import timezone, tzinfo
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_oncelog.json_columns import FEW, NotTabular, parse_column, read_column
from pyspark_oncelog.json_document import Documents
from pyspark_oncelog.moments import find_zone

KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("ratio", pa.float64()),
        ("good", pa.bool_()),
        ("price", pa.decimal128(7, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("days", pa.list_(pa.date32())),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("x", pa.int32()), ("at", pa.timestamp("us"))])),
    ]
)


def maybe(strategy: Any) -> Any:
    return st.one_of(st.none(), strategy)


day = st.dates().map(str)
moment = st.datetimes().map(lambda m: m.isoformat()) | day
documents = maybe(
    st.fixed_dictionaries(
        {},
        optional={
            "id": maybe(st.integers(-(2**63), 2**63 - 1)),
            "name": maybe(st.text(max_size=5)),
            "ratio": maybe(st.floats(allow_nan=False, allow_infinity=False)),
            "good": maybe(st.booleans()),
            "price": maybe(st.integers(-(10**7), 10**7).map(lambda n: n / 100)),
            "at": maybe(moment | moment.map(lambda m: m + "+01:00")),
            "day": maybe(day),
            "days": maybe(st.lists(maybe(day), max_size=2)),
            "tags": maybe(st.lists(st.text(max_size=2), max_size=3)),
            "inner": maybe(st.fixed_dictionaries({"x": st.integers(0, 9), "at": moment})),
            "other": st.integers(),
        },
    ),
)


def berlin() -> tzinfo:
    return find_zone("Europe/Berlin")


def alone(document: bytes | None, kind: pa.DataType) -> Any:
    value = None if document is None else Documents(kind, berlin()).read(document)[0]
    return plain(pa.array([value], kind))


def plain(array: pa.Array) -> Any:
    """Return the values that Python has; times are numbers, for Python has no year 10000."""
    numbers = pa.struct(
        [
            *list(KIND)[:5],
            ("at", pa.int64()),
            ("day", pa.int32()),
            ("days", pa.list_(pa.int32())),
            ("tags", pa.list_(pa.string())),
            ("inner", pa.struct([("x", pa.int32()), ("at", pa.int64())])),
        ]
    )
    return array.cast(numbers).to_pylist() if array.type == KIND else array.to_pylist()


@given(st.lists(documents, min_size=1, max_size=8), st.booleans())
def test_both_ways_say_the_same(found: list[Any], ascii_only: bool) -> None:
    encoded = [
        None if d is None else json.dumps(d, ensure_ascii=ascii_only).encode("utf-8", "replace")
        for d in found
    ]
    made, _ = read_column(pa.array(encoded, pa.binary()), KIND, berlin)
    made.validate(full=True)
    assert plain(made) == [alone(document, KIND)[0] for document in encoded]


@pytest.mark.parametrize(
    "values",
    [[], [b""], [b"{"], [b"5"], [b'{"id": "x"}'], [b'{"id": 1}\n{"id": 2}', b" "],
     [b"null"], [b"{} null"], [b'{"id": 1}\t  null'], [b'{"name": "\xff"}'], [b"{}\x00"],
     [b'{"inner":', b'{"x":1}}{"id":1}'], [b'{"id":1}{"id":2}'], [b'{"ratio": -0}'],
     [b'{"ratio": Inf}'], [b'{"id": 1, "id": 2}'], [b'{"price": 100000}'], [b'{"day": "2024-1-1"}'],
     [b'{"day": "2023-02-29"}'], [b'{"at": "2024-03-31 02:30:00"}'], [b'{"at": 5}'],
     [b'{"at": "1850-01-01 00:00:00"}'], [b'{"at": "2024-01-01T00:00:00+18:30"}']],
)  # fmt: skip
def test_what_is_not_for_the_column_reader(values: list[bytes]) -> None:
    with pytest.raises(NotTabular):
        parse_column(pa.array(values, pa.binary()), KIND, berlin)


def test_what_is_for_the_column_reader() -> None:
    found = [
        b'  {"id": 1, "at": "2024-07-01T12:00:00", "day": "2024-02-29", "days": ["0001-01-01"]} ',
        b'{"id": 2, "at": "2024-10-27 02:30:00.5", "inner": {"at": "2024-07-01 12:00:00"}}',
    ]
    made = parse_column(pa.array(found, pa.binary()), KIND, berlin)
    assert plain(made) == [alone(document, KIND)[0] for document in found]
    no_zone = parse_column(pa.array([b'{"at": "2024-07-01T12:00:00Z"}']), KIND, unasked)
    assert plain(no_zone)[0]["at"] == 1_719_835_200_000_000


def unasked() -> tzinfo:
    raise AssertionError("nothing here has no zone")


def test_one_misfit_among_many_is_found_and_the_others_are_read_by_the_column() -> None:
    values: list[bytes | None] = [b'{"id": %d}' % number for number in range(20 * FEW)]
    values[7], values[8], values[11 * FEW] = b'{"id": 1.5, "good": true}', None, b"nonsense"
    made, problems = read_column(pa.array(values, pa.binary()), KIND, unasked_twice())
    assert [index for index, _ in problems] == [7, 11 * FEW]
    assert problems[0][1] == "id: 1.5 is no BIGINT"
    found = made.to_pylist()
    assert (found[7]["id"], found[7]["good"], found[8]) == (None, True, None)
    assert found[11 * FEW] == dict.fromkeys(KIND.names)
    others = [n for n in range(20 * FEW) if n not in (7, 8, 11 * FEW)]
    assert [found[n]["id"] for n in others] == others


def unasked_twice() -> Any:
    asked: list[int] = []

    def zone() -> tzinfo:
        asked.append(1)
        assert len(asked) == 1
        return timezone.utc  # noqa: UP017

    return zone


def test_types_that_go_one_by_one() -> None:
    kind = pa.struct([("sizes", pa.map_(pa.string(), pa.int64())), ("raw", pa.binary())])
    raw = pa.array([b'{"sizes": {"a": 1}, "raw": "AQI="}', None], pa.binary())
    with pytest.raises(NotTabular):
        parse_column(raw, kind, berlin)
    made, problems = read_column(raw, kind, berlin)
    assert (made.to_pylist(), problems) == ([{"sizes": [("a", 1)], "raw": b"\x01\x02"}, None], [])
    assert len(read_column(raw.slice(0, 0), kind, berlin)[0]) == 0
