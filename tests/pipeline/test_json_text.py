"""JSON is text: a value ends somewhere, and Jackson would write it in its own way."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_oncelog.json_text import Malformed, Token, after_value, java_double, quoted, token

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_what_is_written_means_the_same(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    pieces: list[str] = []
    assert after_value(text + " rest", 0, pieces) == after_value(text + ",", 0) == len(text)
    assert json.loads("".join(pieces)) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{ }", "{}"),
        ("[ 1 , 'a\"' ]", '[1,"a\\""]'),
        ('{"a" : {"b": [ ]}, \'c\' : null}', '{"a":{"b":[]},"c":null}'),
        ('["}", "]", "[", ","]', '["}","]","[",","]'),
        ("[-0, 1.50, 1E2, NaN, +INF]", '[0,1.5,100.0,"NaN","Infinity"]'),
        ('["\\/\\u001f\\ud83d\\ude00\\ude00é"]', '["/\\u001F\\uD83D\\uDE00\\uDE00é"]'),
    ],
)
def test_as_jackson_writes_it(text: str, written: str) -> None:
    pieces: list[str] = []
    assert after_value(text, 0, pieces) == len(text)
    assert "".join(pieces) == written


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1", "[1,]", "[1 2]", '{"a"}', '{"a":}', '{"a":1,}', "{a:1}", "{1:2}", "[}", '"\\q"',
     '"\\u12"', '"a\nb"', '"open', "tru", ".5", "+1", "INF", "nan", "/**/1", '{"a":1]', "\x0b1"],
)  # fmt: skip
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(Malformed):
        after_value(text, 0)


def test_single_quotes() -> None:
    assert token("'it\\'s'", 0) == (Token.STRING, "it's", 7)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0.0"), (-0.0, "-0.0"), (0.001, "0.001"), (0.0001, "1.0E-4"), (9999999.0, "9999999.0"),
     (1e7, "1.0E7"), (123456789.0, "1.23456789E8"), (1e22, "1.0E22"), (-2.5e-10, "-2.5E-10"),
     (math.inf, '"Infinity"'), (-math.inf, '"-Infinity"'), (math.nan, '"NaN"')],
)  # fmt: skip
def test_doubles_as_java_prints_them(number: float, text: str) -> None:
    assert java_double(number) == text


@given(st.text())
def test_quoted_is_json(text: str) -> None:
    assert json.loads(quoted(text)) == text
