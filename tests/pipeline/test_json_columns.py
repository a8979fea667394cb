"""JSON by the column agrees with JSON one by one."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_oncelog.json_columns import NotTabular, parse_column, parse_one

KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("ratio", pa.float64()),
        ("good", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("x", pa.int32())])),
    ]
)
documents = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            "name": st.one_of(st.none(), st.text(max_size=5)),
            "ratio": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
            "good": st.one_of(st.none(), st.booleans()),
            "tags": st.one_of(st.none(), st.lists(st.text(max_size=2), max_size=3)),
            "inner": st.one_of(st.none(), st.fixed_dictionaries({"x": st.integers(0, 9)})),
            "other": st.integers(),
        },
    ),
)


@given(st.lists(documents, min_size=1, max_size=8), st.booleans())
def test_both_ways_say_the_same(found: list[Any], ascii_only: bool) -> None:
    encoded = [
        None if d is None else json.dumps(d, ensure_ascii=ascii_only).encode("utf-8", "replace")
        for d in found
    ]
    parsed = [None if text is None else parse_one(json.loads(text), KIND) for text in encoded]
    made = parse_column(pa.array(encoded, pa.binary()), KIND)
    made.validate(full=True)
    assert made.to_pylist() == pa.array(parsed, KIND).to_pylist()


@pytest.mark.parametrize(
    "values",
    [[], [b""], [b"{"], [b"5"], [b'{"id": "x"}'], [b'{"id": 1}\n{"id": 2}', b" "],
     [b"null"], [b"{} null"], [b'{"id": 1}\t  null'], [b'{"name": "\xff"}'], [b"{}\x00"]],
)  # fmt: skip
def test_what_is_not_for_the_column_reader(values: list[bytes]) -> None:
    with pytest.raises(NotTabular):
        parse_column(pa.array(values, pa.binary()), KIND)


def test_types_that_go_one_by_one() -> None:
    kinds: dict[str, tuple[pa.DataType, Any, Any]] = {
        "price": (pa.decimal128(10, 2), 1.255, Decimal("1.26")),
        "day": (pa.date32(), "2024-02-29", date(2024, 2, 29)),
        "at": (
            pa.timestamp("us", tz="UTC"),
            "2024-02-29T12:00:00+02:00",
            datetime(2024, 2, 29, 10, tzinfo=timezone.utc),  # noqa: UP017
        ),
        "raw": (pa.binary(), "AQI=", b"\x01\x02"),
        "text": (pa.string(), {"a": [1]}, '{"a": [1]}'),
        "sizes": (pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
        "many": (pa.list_(pa.int64()), [1, None], [1, None]),
    }
    kind = pa.struct([(name, entry[0]) for name, entry in kinds.items()])
    with pytest.raises(NotTabular):
        parse_column(pa.array([b"{}"], pa.binary()), kind)
    parsed = parse_one({name: entry[1] for name, entry in kinds.items()}, kind)
    assert pa.array([parsed], kind).to_pylist() == [{n: entry[2] for n, entry in kinds.items()}]


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (True, pa.int64()),
        (1, pa.bool_()),
        ("1", pa.float64()),
        (1.5, pa.int64()),
        ([], pa.struct([("a", pa.int64())])),
        ({}, pa.list_(pa.int64())),
        ("soon", pa.timestamp("us")),
        ("?", pa.binary()),
        (1, pa.duration("s")),
    ],
)
def test_what_does_not_fit(document: Any, kind: pa.DataType) -> None:
    with pytest.raises(ValueError):
        parse_one(document, kind)
