"""All commands share this part of a command line."""

from __future__ import annotations

import pytest

from oncelog_cli.exits import UsageError
from oncelog_cli.invocation import Invocation, invocation_of, parse_client_options


@pytest.mark.parametrize("items", [["a"], ["=1"], [" =1"], ["a=1", "a=2"], ["a.b=1", "a_b=2"]])
def test_wrong_client_options(items: list[str]) -> None:
    with pytest.raises(UsageError, match="-X"):
        parse_client_options(items)


def test_what_the_parser_gives_may_be_nothing() -> None:
    assert invocation_of({}) == Invocation()
    assert invocation_of({"profile": None, "client_options": None}) == Invocation()
