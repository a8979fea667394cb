"""Filter expressions are parsed, or refused with a position that a person can use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_cli.where.parser import DEPTH_MAX, STEPS_MAX, parse_where
from oncelog_cli.where.pattern import PATTERN_LENGTH_MAX
from oncelog_cli.where.tree import (
    AllOf,
    AnyOf,
    Compare,
    Field,
    IsMissing,
    IsNull,
    Matches,
    Not,
    OneOf,
    Operator,
    Part,
    Tree,
    text_of,
)
from oncelog_cli.where.words import TEXT_LENGTH_MAX, WhereError
from support.where_trees import trees

NOW_MS = 1_769_860_800_000
"""2026-01-31T12:00:00Z."""
MIDNIGHT_MS = NOW_MS - 43_200_000
KEY, VALUE, OFFSET = Field(Part.KEY), Field(Part.VALUE), Field(Part.OFFSET)
TIMESTAMP = Field(Part.TIMESTAMP)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ('key == "a"', Compare(Operator.EQUAL, KEY, "a")),
        ("key != 'a'", Not(Compare(Operator.EQUAL, KEY, "a"))),
        ("5 <= offset", Compare(Operator.GREATER_OR_EQUAL, OFFSET, 5)),
        ("value.a == -2.5e1", Compare(Operator.EQUAL, Field(Part.VALUE, path=("a",)), -25.0)),
        ("value.in.or is null", IsNull(Field(Part.VALUE, path=("in", "or")))),
        ('value["a b"][3].c is missing', IsMissing(Field(Part.VALUE, path=("a b", 3, "c")))),
        ("header['x'] is not null", Not(IsNull(Field(Part.HEADER, "x")))),
        ("value in ('a', 3, true)", OneOf(VALUE, ("a", 3, True))),
        ("offset not in (1)", Not(OneOf(OFFSET, (1,)))),
        (r"value matches '^\d'", Matches(VALUE, r"^\d")),
        (r'value matches "^\\d"', Matches(VALUE, r"^\d")),
        ("not value starts 'a'", Not(Compare(Operator.STARTS, VALUE, "a"))),
        ("value.a > key", Compare(Operator.GREATER, Field(Part.VALUE, path=("a",)), KEY)),
        ("timestamp > now - 5m", Compare(Operator.GREATER, TIMESTAMP, NOW_MS - 300_000)),
        ("timestamp<now-1h30m+10s", Compare(Operator.LESS, TIMESTAMP, NOW_MS - 5_390_000)),
        ("timestamp >= 2026-01-31", Compare(Operator.GREATER_OR_EQUAL, TIMESTAMP, MIDNIGHT_MS)),
        ("timestamp == 2026-01-31T01:00:00+01:00", Compare(Operator.EQUAL, TIMESTAMP, MIDNIGHT_MS)),
        ("value.took > 1s", Compare(Operator.GREATER, Field(Part.VALUE, path=("took",)), 1000)),
        (
            "key is null or offset < 5 and not (value is null)",
            AnyOf((IsNull(KEY), AllOf((Compare(Operator.LESS, OFFSET, 5), Not(IsNull(VALUE)))))),
        ),
    ],
)  # fmt: skip
def test_what_is_understood(text: str, tree: Tree) -> None:
    assert parse_where(text, NOW_MS) == tree


@given(trees)
def test_any_tree_is_written_so_that_it_is_read_again(tree: Tree) -> None:
    assert parse_where(text_of(tree), 0) == tree


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "there is no condition"),
        ("   ", 0, "there is no condition"),
        ("valu == 1", 0, "'valu' is not known; did you mean 'value'?"),
        ("topic == 'a'", 0, "there are key, value, header, offset, timestamp, partition, size"),
        ("NOT key == 'a'", 0, "did you mean 'not'?"),
        ("value.a = 1", 8, "equality is written =="),
        ("value.a == 1 && key == 'a'", 13, "write 'and'"),
        ("value.a == 1 AND key == 'a'", 13, "did you mean 'and'?"),
        ("key == 'a", 7, "this text has no end"),
        (r'key matches "\d"', 13, "in single quotes a backslash is itself"),
        (r'key == "\ud800"', 7, "half of a surrogate pair"),
        ("key matches '('", 12, "no regular expression"),
        ("key matches 5", 12, "a regular expression, in quotes, not 5"),
        ("key ==", 6, "not the end"),
        ("key", 3, "expected a comparison: == != < <= > >= in contains starts matches is"),
        ("key startz 'a'", 4, "did you mean 'starts'?"),
        ("key == null", 7, "write 'is null'"),
        ("key is nothing", 7, "expected 'null' or 'missing', not nothing"),
        ("(key is null", 12, "expected ')', not the end"),
        ("key is null)", 11, "expected 'and', 'or' or the end, not )"),
        ("1 == 1", 0, "one of the two sides must be a field"),
        ("1 < offset < 5", 11, "expected 'and', 'or' or the end"),
        ("offset == '5'", 10, "offset is a number, and '5' is none"),
        ("offset contains 5", 7, "compare it by =="),
        ("offset.a == 5", 6, "there is nothing in it"),
        ("timestamp > '2026-01-31'", 12, "a time is written without quotes"),
        ("timestamp > 5m", 12, "a time is written now - 5m"),
        ("timestamp > 2026-13-31", 12, "2026-13-31 is no time"),
        ("timestamp > now - 5", 18, "expected a duration"),
        ("timestamp > 5x", 12, "this is no number, no time"),
        ("timestamp > 5mm", 12, "5mm is no duration"),
        ("value.a > true", 10, "true is not less or more"),
        ("value.a == 1e999", 11, "too large"),
        ("value.5 == 1", 6, "a name; other names are written in brackets"),
        ("value[-1] == 1", 6, "the index of an element"),
        ("header.trace == 'a'", 6, 'header["NAME"]'),
        ("header == 'a'", 0, "which header?"),
        ("header is null", 0, "which header?"),
        ("header['']  is null", 7, "a header has a name"),
        ("value in ()", 10, "expected text in quotes"),
        ("value == f(1)", 9, "'f' is not known"),
        ("value.__class__() == 1", 15, "expected a comparison"),
        ("key == 'a'; import os", 10, "';' means nothing here"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, position: int, reason: str) -> None:
    with pytest.raises(WhereError) as caught:
        parse_where(text, NOW_MS)
    assert reason in caught.value.reason
    assert caught.value.position == position


def test_bounds() -> None:
    inner = "key is null"
    deepest = "(" * DEPTH_MAX + inner + ")" * DEPTH_MAX
    assert parse_where(deepest, 0) == IsNull(KEY)
    parse_where("not " * DEPTH_MAX + inner, 0)
    parse_where("value" + ".a" * STEPS_MAX + " is null", 0)
    for text in (
        f"({deepest})",
        "not " * (DEPTH_MAX + 1) + inner,
        "value" + ".a" * (STEPS_MAX + 1) + " is null",
        "value == '" + "a" * TEXT_LENGTH_MAX + "'",
        "value matches '" + "a" * (PATTERN_LENGTH_MAX + 1) + "'",
        "value matches '" + "(" * 500 + ")" * 500 + "'",
        "timestamp > now - " + "9" * 50 + "d",
    ):
        with pytest.raises(WhereError):
            parse_where(text, 0)


PIECES = (
    *("key", "value", "header", "offset", "timestamp", "size", "now", "true", "null", "missing"),
    *("and", "or", "not", "in", "is", "contains", "starts", "matches", "==", "!=", "<", ">="),
    *("(", ")", "[", "]", ".", ",", "-", "+", "'a'", '"b"', "1", "2.5", "5m", "2026-01-31", "é"),
    *("'", '"', "\\", "=", "a", "0", "\x00", "\ud800", "٣"),
)


@settings(max_examples=settings().max_examples * 5)
@given(
    st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
)
def test_any_text_is_parsed_or_refused_with_a_position(text: str) -> None:
    refused: WhereError | None = None
    try:
        tree = parse_where(text, NOW_MS)
    except WhereError as error:
        refused = error
    if refused is None:
        assert parse_where(text_of(tree), NOW_MS) == tree
    else:
        assert 0 <= refused.position <= len(text)
        assert refused.reason
