"""Trees are written as the text of an expression; ``test_parser.py`` reads any of them again."""

from __future__ import annotations

import pytest

from oncelog_cli.where.parser import parse_where
from oncelog_cli.where.tree import text_of


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
