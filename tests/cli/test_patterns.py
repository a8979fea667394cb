"""These tests check which names patterns pick."""

from __future__ import annotations

import pytest

from oncelog_cli.exits import UsageError
from oncelog_cli.patterns import matching


def test_matching() -> None:
    known = ["orders", "orders-dead", "bills"]
    assert matching(known, ["orders", "new", "orders"], regex=False) == ["orders", "new"]
    assert matching(known, ["orders.*"], regex=True) == ["orders", "orders-dead"]
    assert matching(known, ["order"], regex=True) == []
    with pytest.raises(UsageError, match="regular expression"):
        matching(known, ["("], regex=True)
