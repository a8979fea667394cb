"""Regular expressions are compiled within bounds, and look at bytes."""

from __future__ import annotations

import pytest

from oncelog_cli.where.pattern import PATTERN_LENGTH_MAX, compile_pattern


def test_bytes_are_matched() -> None:
    assert compile_pattern("^..$").search("ö".encode())
    assert compile_pattern("[[a]").search(b"[")  # Python warns that this may change: nobody sees it
    assert compile_pattern("a" * PATTERN_LENGTH_MAX).search(b"b") is None


@pytest.mark.parametrize(
    "text",
    [
        "(",
        "a" * (PATTERN_LENGTH_MAX + 1),
        "(" * 490 + ")" * 490,
        "a{99999999999999999999}",
        "\ud800",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        compile_pattern(text)
