"""The measured turns: a long one is seen, a short one is not; every operation runs, in small."""

from __future__ import annotations

import asyncio
import json
import logging
import time

import pytest

from oncelog_testing.turns import __main__ as program
from oncelog_testing.turns import operations, planning
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


@pytest.mark.slow
def test_a_controller_is_measured_at_scale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs in small: whoever dies, returns or moves causes writes and orders."""
    monkeypatch.setattr(logging, "disable", lambda level: None)
    monkeypatch.setattr(program, "BOUND_MS", -1.0)
    assert program.measure_scale(operations.Size(controlled=500, brokers=5)) == 1
    document = json.loads(capsys.readouterr().out)
    costs = document["operations"]
    assert document["over_50_ms"] == list(costs)
    assert document["memory_bytes"] >= 0
    written = {name for name, cost in costs.items() if cost["written_nodes"]}
    assert written == {
        "a broker dies",
        "leaderships go back",
        "moves begin",
        "added replicas join, and moves end",
    }
    assert all(costs[name]["sent_bytes"] for name in written)
    assert all(cost["cpu_s"] >= 0 for cost in costs.values())


def test_a_plan_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """The last broker is empty, and gets its part: a third of what three have."""
    assert program.measure_plan(planning.PlanSize(4, 120)) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["brokers"], document["partitions"]) == (4, 120)
    assert document["copies"] == 120 * 3 // 4
    assert document["turns"] >= 1
    assert document["cpu_s"] >= 0
