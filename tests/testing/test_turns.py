"""The measured turns: a long one is seen, a short one is not; every operation runs, in small."""

from __future__ import annotations

import asyncio
import json
import logging
import time

import pytest

from oncelog_testing.turns import __main__ as program
from oncelog_testing.turns import operations
from oncelog_testing.turns.meter import TurnMeter, measured


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_the_longest_turn_of_an_operation_is_told() -> None:
    async def work() -> None:
        burn(0.2)  # of no operation
        with meter.operation("one turn"):
            burn(0.06)
            await asyncio.sleep(0)
            burn(0.01)
        with meter.operation("many turns"):
            for _ in range(10):
                burn(0.01)
                await asyncio.sleep(0)
        with meter.operation("waiting"):
            await asyncio.sleep(0.1)

    meter = TurnMeter()
    measured(meter, work())
    assert meter.longest_ms["one turn"] >= 60
    assert 10 <= meter.longest_ms["many turns"] < 100  # which is all of them
    assert meter.longest_ms["waiting"] < 60


@pytest.mark.slow
def test_every_operation_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs in small; the figures say nothing here."""
    monkeypatch.setattr(program, "QUICK", operations.Size(60, 2**22, 50, 100, 4))
    monkeypatch.setattr(program, "BOUND_MS", -1.0)
    monkeypatch.setattr(logging, "disable", lambda level: None)
    assert program.main(["--quick"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["over_50_ms"] == list(document["operations"])
    assert len(document["operations"]) >= 20
    assert all(longest >= 0 for longest in document["operations"].values())
