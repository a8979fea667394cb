"""These tests check the grammar of ``--grep``."""

from __future__ import annotations

import pytest

from oncelog import Record
from oncelog_cli.record_filter import filter_of, parse_filter
from oncelog_cli.where.parser import parse_where

ORDER = Record(
    *("t", 0, 5, 1000, b"user-42", "refund für alle".encode()),
    (("trace", b"00-abc"), ("empty", None)),
)
GONE = Record("t", 0, 6, 1000, b"user-7", None)
PLAIN = Record("t", 0, 7, 1000, None, b"value:1\xff")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["refund"], [ORDER]),
        (["value:refund$"], []),
        (["für"], [ORDER]),
        (["key:^user-"], [ORDER, GONE]),
        (["key:42", "refund"], [ORDER]),
        (["key:42", "null"], []),
        (["null"], [GONE]),
        (["!null"], [ORDER, PLAIN]),
        (["header:trace"], [ORDER]),
        (["header:trace=^00-"], [ORDER]),
        (["header:trace=^01-"], []),
        (["header:empty=."], []),
        (["header:empty"], [ORDER]),
        (["!header:trace"], [GONE, PLAIN]),
        (["value:value:1"], [PLAIN]),
        (["other:thing"], []),
        (["value:\\xff"], [PLAIN]),
    ],
)
def test_what_is_found(filters: list[str], found: list[Record]) -> None:
    keep = filter_of([parse_filter(item) for item in filters])
    assert keep is not None
    assert keep([ORDER, GONE, PLAIN]) == found
    assert keep([]) == []


def test_no_filter() -> None:
    assert filter_of([]) is None


@pytest.mark.parametrize(
    ("grep", "where"),
    [
        ("refund", "value matches 'refund'"),
        ("value:^a\\d", r"value matches '^a\d'"),
        ("key:^user-42$", 'key matches "^user-42$"'),
        ("header:trace=^00-", 'header["trace"] matches "^00-"'),
        ("header:trace", "header contains 'trace'"),
        ("null", "value is null"),
        ("!null", "value is not null"),
        ("!key:a", "not key matches 'a'"),
    ],
)
def test_an_expression_says_what_a_filter_says(grep: str, where: str) -> None:
    assert parse_filter(grep) == parse_where(where, 0)


def test_what_stands_for_a_record_is_looked_at_and_the_record_is_kept() -> None:
    keep = filter_of([parse_filter("null")], seen_as=lambda record: record._replace(value=None))
    assert keep is not None
    assert keep([ORDER]) == [ORDER]


@pytest.mark.parametrize("text", ["", "!", "value:", "key:", "header:", "header:=x", "(", "key:["])
def test_what_is_no_filter(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_filter(text)
