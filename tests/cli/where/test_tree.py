"""Trees are written as the text of an expression; ``test_parser.py`` reads any of them again."""

from __future__ import annotations

import pytest

from oncelog_cli.where.parser import parse_where
from oncelog_cli.where.tree import field_text, fields_of, text_of


def test_no_time_stays_relative() -> None:
    tree = parse_where("timestamp>now-5m and timestamp in (now, 1)", 1_769_860_800_000)
    assert text_of(tree) == (
        "timestamp > 2026-01-31T11:55:00.000Z"
        " and timestamp in (2026-01-31T12:00:00.000Z, 1970-01-01T00:00:00.001Z)"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"not (not key matches '\d')", r'not key not matches "\\d"'),
        ("(key=='a' or value.x is null)and size>5", '(key == "a" or value.x is null) and size > 5'),
        ("key=='a' or (size>5 and size<7)", 'key == "a" or size > 5 and size < 7'),
        ("value['a b']['ö'][0] not in (true, 2.50)", 'value["a b"].ö[0] not in (true, 2.5)'),
        ("header['x'] is not missing", 'header["x"] is not missing'),
    ],
)
def test_parentheses_and_quotes_stand_where_they_must(text: str, written: str) -> None:
    assert text_of(parse_where(text, 0)) == written


def test_fields_are_named_once_for_each_condition() -> None:
    text = "not (value.a < 1 or value.b == key) and key in (1, 2) and (size > 5 or key is null)"
    tree = parse_where(f"{text} and value.c is missing and value matches 'x'", 0)
    found = [field_text(each) for each in fields_of(tree)]
    assert found == ["value.a", "value.b", "key", "key", "size", "key", "value.c", "value"]
