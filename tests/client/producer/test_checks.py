"""The producer refuses what could harm others before it does."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.producer.checks import check_columns, check_headers, check_record


def test_good_ones() -> None:
    check_record(b"v", b"k", [("h", b""), ("h", None)], 0)
    check_record(None, None, None, None)
    check_record(b"", b"", [], 2**63 - 1)
    check_columns([b"a", None], [None, b"k"], [None, [("h", None)]], [1, 2])
    check_columns([], None, None, 5)
    check_columns((b"a",), None, None, [7])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("v", None, None, None), TypeError),
        ((memoryview(b"v"), None, None, None), TypeError),
        ((b"v", "k", None, None), TypeError),
        ((b"v", None, None, -1), ValueError),
        ((b"v", None, None, 2**63), ValueError),
        ((b"v", None, None, True), ValueError),
    ],
)
def test_bad_records(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_record(*arguments)


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ([("h", "v")], TypeError),
        ([(7, b"v")], TypeError),
        ([("h",)], TypeError),
        ([("h", b"1", b"2")], TypeError),
        (["hv"], TypeError),
        ([7], TypeError),
        ({"a": b"b"}, TypeError),
        ({7}, TypeError),
        (b"ab", TypeError),
        (7, TypeError),
        ([("\ud800", b"v")], ValueError),
        ([("h", b"")] * 1025, ValueError),
    ],
)
def test_bad_headers(headers: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_headers(headers)


def test_a_mapping_of_headers_is_told_how_it_is_written() -> None:
    headers: Any = {"a": "b"}
    with pytest.raises(TypeError, match=r"headers: dict is not a list of pairs.*headers=\[\("):
        check_record(b"v", None, headers, None)
    with pytest.raises(TypeError, match="headers: dict is not a list of pairs"):
        check_columns([b"v"], None, [headers], 0)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (([b"a", 1], None, None, 0), TypeError),
        (([b"a"], ["k"], None, 0), TypeError),
        (([b"a"], [], None, 0), ValueError),
        (([b"a"], None, [None, None], 0), ValueError),
        (([b"a"], None, [[("h", 1)]], 0), TypeError),
        (([b"a"], None, None, []), ValueError),
        (([b"a"], None, None, [1.0]), ValueError),
        (([b"a"], None, None, [-1]), ValueError),
        (([b"a"], None, None, -1), ValueError),
    ],
)
def test_bad_columns(columns: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_columns(*columns)
