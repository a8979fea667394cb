"""Extras: what is missing is named, with the remedy, before anything starts."""

from __future__ import annotations

import pytest

from oncelog_cli.exits import UsageError
from oncelog_cli.extras import BROKER, need


def test_what_is_there_is_not_asked_for() -> None:
    need("broker", BROKER, "a broker")


def test_what_is_missing_is_named_with_the_remedy() -> None:
    with pytest.raises(UsageError) as caught:
        need("broker", ("json", "no_such_module", "nor_this"), "a broker")
    assert str(caught.value) == (
        "a broker needs packages that are not installed: no_such_module, nor_this. "
        "Remedy: pip install 'oncelog[broker]'"
    )
