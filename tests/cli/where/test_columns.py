"""Batches are searched by columns: any expression finds what a judge of single records finds."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings

from oncelog import ColumnBatch, Record
from oncelog_cli.record_filter import filter_of
from oncelog_cli.where.columns import finder_of
from oncelog_cli.where.parser import parse_where
from oncelog_cli.where.tree import Compare, Field, Operator, Part, Tree
from support.where_trees import batches, holds, trees

ORDER = b'{"id": 7, "status": "failed", "tags": ["new", 3], "paid": true, "note": null}'
HEADERS = (("trace", b"00-abc"), ("trace", b"01-x"), ("empty", None))
ONE = Record("t", 2, 41, 1_769_860_800_000, b"user-42", ORDER, HEADERS)
TWO = Record("t", 2, 42, 1_769_860_801_000, b"17", b'{"id": 8, "status": "\\u0066ailed"}')
GONE = Record("t", 2, 43, 1_769_860_802_000, b'{"id": 9}', None)
TEXT = Record("t", 2, 44, 1_769_860_803_000, None, "Störung 7: \xff".encode("latin-1"))
ALL = [ONE, TWO, GONE, TEXT]


@settings(max_examples=settings().max_examples * 5)
@given(trees, batches())
@example(
    Compare(Operator.EQUAL, Field(Part.VALUE, path=("a",)), "ab"),
    [Record("t", 0, 0, 0, None, b'{"a": "\\u0061b"}'), Record("t", 0, 1, 0, None, b'{"a": "ab"}')],
)
@example(
    Compare(Operator.EQUAL, Field(Part.VALUE, path=("a",)), "s/s"),
    [Record("t", 0, 0, 0, None, b'{"a": "s\\/s"}')],
)
def test_any_tree_finds_what_the_judge_finds(tree: Tree, records: list[Record]) -> None:
    keep = filter_of([tree])
    assert keep is not None
    assert keep(records) == [record for record in records if holds(tree, record)]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ('value.status == "failed"', [ONE, TWO]),
        ("value.id > 7", [TWO]),
        ("value.id == 7.0", [ONE]),
        ('value.id == "7"', []),
        ("value.id in (8, 9)", [TWO]),
        ("value.tags contains 'new'", [ONE]),
        ("value.tags contains 3", [ONE]),
        ("value.tags[1] == 3", [ONE]),
        ("value.tags[2] is missing", ALL),
        ("value.status starts 'fail'", [ONE, TWO]),
        ("value.status matches '^f.*d$'", [ONE, TWO]),
        ("value.paid == true", [ONE]),
        ("value.paid == 1", []),
        ("value.note is null", ALL),
        ("value.note is missing", [TWO, GONE, TEXT]),
        ("value.id != 7", [TWO, GONE, TEXT]),
        ("value contains 'failed'", [ONE]),
        (r"value matches '\xff$'", [TEXT]),
        ("value is null", [GONE]),
        ("size == 0", [GONE]),
        ("key == 17", [TWO]),
        ("key == '17'", [TWO]),
        ("key.id == 9", [GONE]),
        ("key < 'v' and key > 'u'", [ONE]),
        ("value.id < offset", [ONE, TWO]),
        ('header["trace"] starts "01"', [ONE]),
        ('header["trace"] == "00-abc"', [ONE]),
        ('header["empty"] is null and header contains "empty"', [ONE]),
        ('header["empty"] is not missing', [ONE]),
        ("partition == 2 and offset >= 43", [GONE, TEXT]),
        ("timestamp >= 2026-01-31T12:00:01Z and not timestamp > now - 1s", [TWO]),
        ("offset == 41 or (key is null and offset > 0)", [ONE, TEXT]),
    ],
)
def test_what_is_found(expression: str, wanted: list[Record]) -> None:
    keep = filter_of([parse_where(expression, 1_769_860_802_000)])
    assert keep is not None
    assert keep(ALL) == wanted


def test_json_is_not_decoded_where_the_text_is_not() -> None:
    """A value that would take Python's memory is not looked into."""
    deep = b"[" * 100_000
    batch = ColumnBatch("t", 0, range(2), [0, 0], None, [deep, b'{"a": "yes"}'], None)
    find = finder_of(parse_where('value.a == "yes"', 0))
    assert find(batch) == [1]


def test_documents_that_are_too_deep_hold_nothing() -> None:
    values = [b'{"a":' * 100_000, json.dumps({"a": 1}).encode()]
    batch = ColumnBatch("t", 0, range(2), [0, 0], None, values, None)
    assert finder_of(parse_where("value.a is missing", 0))(batch) == [0]


@pytest.mark.parametrize("spread", [1, 3, 40, 700, 5000])
@pytest.mark.parametrize("other", [b"plain", b"two\nlines", None])
def test_texts_that_are_in_many_records_or_in_few(spread: int, other: bytes | None) -> None:
    values = [b'{"a": "sought"}' if row % spread == 2 % spread else other for row in range(3000)]
    batch = ColumnBatch("t", 0, range(3000), [0] * 3000, None, values, None)
    wanted = [row for row, value in enumerate(values) if value is not None and b"sought" in value]
    for text in ("value contains 'sought'", "value.a == 'sought'", 'value starts \'{"a": "s\''):
        assert finder_of(parse_where(text, 0))(batch) == wanted


def test_names_that_are_in_nearly_all_records_or_in_half() -> None:
    for others in (2, 40):
        values: list[bytes | None] = [
            b'{"x": 1}' if row % others == 1 else b'{"id": %d}' % row for row in range(3000)
        ]
        batch = ColumnBatch("t", 0, range(3000), [0] * 3000, None, values, None)
        wanted = [row for row in range(2000, 3000) if row % others != 1]
        assert finder_of(parse_where("value.id >= 2000", 0))(batch) == wanted


@pytest.mark.parametrize("first", [90, 95, 100, 101])
def test_offsets_without_gaps(first: int) -> None:
    batch = ColumnBatch("t", 0, range(first, first + 6), [0] * 6, None, [b""] * 6, None)
    offsets = list(batch.offsets)
    for sign, wanted in {
        "<": [row for row, each in enumerate(offsets) if each < 100],
        "<=": [row for row, each in enumerate(offsets) if each <= 100],
        ">": [row for row, each in enumerate(offsets) if each > 100],
        ">=": [row for row, each in enumerate(offsets) if each >= 100],
        "==": [row for row, each in enumerate(offsets) if each == 100],
    }.items():
        assert finder_of(parse_where(f"offset {sign} 100", 0))(batch) == wanted


def test_columns_that_no_record_has() -> None:
    batch = ColumnBatch("t", 0, range(3), [0, 0, 0], None, [b"a", b"b", b"c"], None)
    for text in (
        "key == 'a'",
        "key.a == 1",
        "header contains 'a'",
        "key matches 'a'",
        "value < key",
    ):
        assert finder_of(parse_where(text, 0))(batch) == []
    assert finder_of(parse_where('key is null and header["a"] is missing', 0))(batch) == [0, 1, 2]
