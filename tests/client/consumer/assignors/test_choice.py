"""These tests check the option ``partition_assignment_strategy``."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.consumer.assignors.choice import ASSIGNORS, make_assignors, rebalance_protocol
from oncelog.consumer.assignors.range import RangeAssignor
from oncelog.errors import ConfigurationError


def test_names_are_those_of_the_assignors() -> None:
    for name in ASSIGNORS:
        (made,) = make_assignors(name)
        assert made.name == name


def test_names_and_objects_in_order() -> None:
    own = RangeAssignor()
    own.name = "mine"
    made = make_assignors(["cooperative-sticky", own])
    assert [assignor.name for assignor in made] == ["cooperative-sticky", "mine"]
    assert made[1] is own
    assert make_assignors(own) == (own,)


def test_only_all_cooperative_is_cooperative() -> None:
    assert rebalance_protocol(make_assignors("cooperative-sticky")) == "cooperative"
    assert rebalance_protocol(make_assignors(("cooperative-sticky", "range"))) == "eager"
    assert rebalance_protocol(make_assignors("sticky")) == "eager"


@pytest.mark.parametrize(
    "wrong", ["fair", [], ["range", "range"], [RangeAssignor], [7], [None], ("range", object())]
)
def test_what_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="partition_assignment_strategy"):
        make_assignors(wrong)


def test_an_object_with_a_wrong_protocol_is_refused() -> None:
    own = RangeAssignor()
    own.protocol = "eagre"  # type: ignore[assignment]
    with pytest.raises(ConfigurationError, match="'eager' or 'cooperative'"):
        make_assignors(own)
