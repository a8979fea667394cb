"""An address guesses when it has failed ten times within a minute."""

from __future__ import annotations

import pytest

from oncelog_broker.server import guessing_hosts
from oncelog_broker.server.guessing_hosts import OFTEN, WINDOW_S, GuessingHosts

A, B = "192.0.2.1", "192.0.2.2"


def test_the_tenth_failure_within_a_minute_is_a_guess_and_so_are_those_behind_it() -> None:
    hosts = GuessingHosts()
    found = [hosts.failed(A, float(second)) for second in range(15)]
    assert found == [False] * (OFTEN - 1) + [True] * 6
    assert not hosts.failed(B, 15.0)


def test_mistyped_passwords_of_a_day_are_no_guesses() -> None:
    hosts = GuessingHosts()
    step = WINDOW_S / (OFTEN - 1)
    assert not any(hosts.failed(A, number * step) for number in range(100))


def test_the_addresses_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing_hosts, "HOSTS_MAX", 3)
    hosts = GuessingHosts()
    for number in range(OFTEN - 1):
        assert not hosts.failed(A, float(number))
        hosts.failed(f"10.0.0.{number}", float(number))
        assert len(hosts) <= 3
    assert hosts.failed(A, 9.0), "who fails all the time is not forgotten for others"
