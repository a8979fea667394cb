"""Values of different kinds meet: what is equal, less, or in what."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_cli.where.tree import Operator
from oncelog_cli.where.values import MISSING, at_path, comparison_of, json_of, path_reader


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
