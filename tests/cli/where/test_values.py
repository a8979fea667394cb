"""Values of different kinds meet: what is equal, less, or in what."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oncelog_cli.where.tree import Operator
from oncelog_cli.where.values import (
    MISSING,
    at_path,
    comparison_of,
    fast_reader,
    json_of,
    path_reader,
)
from support.where_trees import encoded


@pytest.mark.parametrize(
    ("left", "operator", "right", "wanted"),
    [
        (b"a", "==", "a", True),
        ("a", "==", b"a", True),
        (b"17", "==", 17, True),
        (b"17.0", "==", 17, True),
        (b"true", "==", True, True),
        (b"1", "==", True, False),
        (True, "==", 1, False),
        (None, "==", None, False),
        (MISSING, "==", MISSING, False),
        ([1], "==", [1], False),
        ("10", "<", "9", True),
        (b"10", "<", 9, False),
        ("a", "<", 1, False),
        (False, "<", True, False),
        (2**63 + 1, ">", 2.0**63, True),
        (b"[1, 2]", "contains", 2, True),
        ([1, True], "contains", 1.0, True),
        ([True], "contains", 1, False),
        ({"a": 1}, "contains", "a", False),
        (b"\xffab", "contains", "ab", True),
        ("\ud800b", "==", b"b", False),
    ],
)
def test_what_holds(left: Any, operator: str, right: Any, wanted: bool) -> None:
    assert comparison_of(Operator(operator))(left, right) is wanted


def test_places_in_documents() -> None:
    document = json_of(b'{"a": [{"b": null}]}')
    assert at_path(document, ("a", 0, "b")) is None
    assert path_reader(("a", 0, "b"))(document) is None
    assert path_reader(("a",))(document) == [{"b": None}]
    for path in (("b",), ("a", 1), ("a", "b"), ("a", 0, "b", "c"), (0,)):
        assert at_path(document, path) is MISSING
        assert path_reader(path)(document) is MISSING
    for data in (b"", b"\xff", b"nonsense", b'{"a": 1} 2', b"9" * 5000):
        assert json_of(data) is MISSING


def by_python(data: bytes) -> str:
    """Return what Python reads, written so that types, members' order and NaN are compared."""
    try:
        return repr(json.loads(data.decode()))
    except (ValueError, RecursionError):
        return "nothing"


PIECES = [
    *(b'{ } [ ] , : " \\ / - . 0 1 e E+ 99999999999999999999 true nul null NaN Infinity'.split()),
    *(
        b" ",
        b"\n",
        b"\t",
        b"\xff",
        b"\x00",
        b"\xc3\xa4",
        b'"a"',
        b'"\\u0061"',
        b'"\\ud800"',
        b"\\n",
    ),
]
anything = st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
numbers = st.from_regex(r"\A-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?\Z").map(str.encode)


@given(st.one_of(encoded, anything, numbers))
@example(b'{"a": 1, "b": 2, "a": 3}')
@example(b"[18446744073709551616, -9223372036854775809]")
@example(b"9" * 5000)
@example(b"[1e400, NaN, -0, -0.0, 5e-324]")
@example(b'["\\ud83d\\ude00", "\\ud83d", "\xed\xa0\x80"]')
@example(b"\xef\xbb\xbf1")
@example(b"[" * 5000)
def test_json_is_what_python_takes_for_it(data: bytes) -> None:
    found = json_of(data)
    assert ("nothing" if found is MISSING else repr(found)) == by_python(data)


def test_json_is_read_with_msgspec_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fast_reader() is not None
    monkeypatch.setitem(sys.modules, "msgspec.json", None)
    fast_reader.cache_clear()
    try:
        assert fast_reader() is None
        assert json_of(b'{"a": [1]}') == {"a": [1]}
        assert json_of(b"no") is MISSING
    finally:
        fast_reader.cache_clear()
