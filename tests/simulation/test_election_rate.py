"""These tests count [I26] over known times of elections."""

from __future__ import annotations

import pytest

from simulation.election_rate import ELECTIONS_MAX, WINDOW_S, ElectionRate
from simulation.store_view import InvariantViolation


def test_a_fight_is_found() -> None:
    rate = ElectionRate(lambda: 7.0)
    for epoch in range(ELECTIONS_MAX):
        rate.elected(epoch, session=1)
    with pytest.raises(InvariantViolation, match="I26"):
        rate.elected(ELECTIONS_MAX, session=1)


def test_as_many_elections_that_take_longer_are_accepted() -> None:
    now_s = 0.0
    rate = ElectionRate(lambda: now_s)
    for epoch in range(4 * ELECTIONS_MAX):
        rate.elected(epoch, session=1)
        now_s += 1.01 * WINDOW_S / ELECTIONS_MAX
    assert rate.most == ELECTIONS_MAX
