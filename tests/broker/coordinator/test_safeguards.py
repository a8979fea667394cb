"""Each rule of the coordinators is left out by one of those that lack one."""

from __future__ import annotations

from oncelog_broker.coordinator.safeguards import CoordinatorSafeguards
from support.safeguards import decisions, left_out
from unsafe.coordinators import UNSAFE


def test_every_rule_can_be_left_out() -> None:
    assert left_out(UNSAFE.values()) == decisions(CoordinatorSafeguards)
