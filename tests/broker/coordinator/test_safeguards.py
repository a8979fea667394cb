"""Every rule that can be switched off is on by default, and the list of switches is complete."""

from __future__ import annotations

from dataclasses import fields

import pytest

from oncelog_broker.coordinator.safeguards import SWITCHES, CoordinatorSafeguards, without


def test_every_rule_is_on_by_default_and_has_its_switch() -> None:
    safe = CoordinatorSafeguards()
    assert [field.name for field in fields(safe)] == list(SWITCHES)
    assert all(getattr(safe, switch) for switch in SWITCHES)


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_turns_one_rule(switch: str) -> None:
    safe, turned = CoordinatorSafeguards(), without(switch)
    differing = [s for s in SWITCHES if getattr(safe, s) != getattr(turned, s)]
    assert differing == [switch]


def test_an_unknown_switch_is_refused() -> None:
    with pytest.raises(ValueError, match="none of wait_for_load"):
        without("wait_for_godot")
