"""Fuzz: nobody gets in by an exchange with bytes changed, and no bytes break a broker's end."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import settings

from fuzz import authenticate
from fuzz.authenticate import fuzz, mutated
from oncelog_protocol.sasl.oauth_bearer import TokenHolder


@pytest.mark.hostile(18, 23)
def test_nobody_gets_in_by_changed_bytes() -> None:
    tally = fuzz(1, settings().max_examples * 30)
    assert tally.faults == []
    assert tally.frames >= settings().max_examples * 30
    wanted = {"let in", "failed", "goes on", "broken"}
    assert wanted <= tally.outcomes.keys(), "each end of an exchange is met"


def test_who_is_let_in_by_changed_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz tells that every token is believed."""
    monkeypatch.setattr(authenticate, "verdict", lambda _: TokenHolder("user", 1))
    tally = fuzz(1, 1000)
    assert any("a stranger is let in" in fault for fault in tally.faults)
    assert all(fault.startswith("exchange ") for fault in tally.faults)


def test_one_number_draws_the_same_bytes() -> None:
    drawn = [mutated(random.Random(7), b"n,,n=user,r=x") for _ in range(2)]
    assert drawn[0] == drawn[1] != b"n,,n=user,r=x"
    assert fuzz(5, 20).outcomes == fuzz(5, 20).outcomes


def test_the_command_says_how_many_frames_there_were(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(authenticate, "EXCHANGES_OF_A_JOB", 50)
    assert authenticate.main(["--frames", "60", "--jobs", "1"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["frames"] >= 60
    assert (summary["faults"], summary["ok"]) == (0, True)
