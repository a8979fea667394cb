"""A filter lets the names through that the command of the page lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_cli.patterns import among
from oncelog_console.filters import ALL_NAMES, PATTERN_CHARS_MAX, name_filter
from oncelog_console.page import BadRequestError

NAMES = ["orders", "orders.eu", "ord+ers", "payments", "a/b"]


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("", NAMES),
        ("  ", NAMES),
        ("ord", ["orders", "orders.eu", "ord+ers"]),
        (".", ["orders.eu"]),
        ("+", ["ord+ers"]),
        ("/^ord.*s$/", ["orders", "ord+ers"]),
        ("/eu|pay/", ["orders.eu", "payments"]),
        ("/", ["a/b"]),
    ],
)
def test_names_that_pass_are_those_of_the_command(text: str, passing: list[str]) -> None:
    chosen = name_filter(text)
    assert [name for name in NAMES if chosen.fits(name)] == passing
    if chosen is ALL_NAMES:
        assert (chosen.is_set, chosen.patterns) == (False, ())
    elif text != "/^ord.*s$/":  # "^" within ".*(?:)" still holds, as commands match from the start
        assert chosen.is_set
        assert among(NAMES, chosen.patterns, regex=True) == passing


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\n\r"), max_size=20))
def test_any_text_is_a_part_of_a_name(text: str) -> None:
    chosen = name_filter(text)
    assert chosen.fits(f"a{text.strip()}b")


@pytest.mark.parametrize("text", ["/(/", "x" * (PATTERN_CHARS_MAX + 1)])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError):
        name_filter(text)
