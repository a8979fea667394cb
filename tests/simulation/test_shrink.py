"""A failing run becomes smaller and still breaks the same promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulation.__main__ import main
from simulation.campaign import Options, run_seed
from simulation.knobs import Knobs
from simulation.shrink import promise_of, shrink
from unsafe.replication import without

pytestmark = pytest.mark.usefixtures("failed_runs")
SEED = 4
BROKEN = Options(
    safety_s=5,
    knobs=Knobs(partitions=1, clients=2, zookeeper_session_timeout_ms=600),
    faults=("kill_one", "kill_chasing", "kill_all", "pause", "isolate_from_followers"),
    safeguards={"safeguards": without("truncate_on_divergence")},
)
"""Followers keep what their new leader does not have."""


def test_a_failing_run_shrinks() -> None:
    runs = (run_seed(seed, BROKEN) for seed in range(1, 30))
    whole = next(run for run in runs if promise_of(run).startswith("I") and len(run.fault_ids) > 2)
    promise = promise_of(whole)
    said: list[str] = []
    found = shrink(whole.seed, BROKEN, say=said.append)
    assert found is not None
    assert promise_of(found.result) == promise != ""
    assert len(found.result.fault_ids) < len(whole.fault_ids)
    assert not set(found.skipped) & set(found.result.fault_ids)
    assert found.seconds <= BROKEN.safety_s
    assert said[0].startswith(f"seed {whole.seed} breaks {promise} with ")
    options = replace(BROKEN, safety_s=found.seconds, skip=found.skipped)
    again = run_seed(whole.seed, options)
    assert again.trace_hash == found.result.trace_hash
    for id in again.fault_ids:
        less = run_seed(whole.seed, replace(options, skip=[*found.skipped, id]))
        assert promise_of(less) != promise, "not one fault too many"


def test_a_clean_seed_does_not_shrink(capsys: pytest.CaptureFixture[str]) -> None:
    assert shrink(SEED, Options(safety_s=1)) is None
    assert main(["shrink", str(SEED), "--seconds", "1"]) == 0
    assert capsys.readouterr().out == f"seed {SEED} is clean: nothing to shrink\n"


def test_the_command_says_how_to_replay(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulation.campaign.CONVERGE_S", 0.0)
    assert main(["shrink", str(SEED), "--seconds", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"seed {SEED} breaks liveness with ")
    assert lines[-1].startswith(f"  make sim SEED={SEED} SECONDS_SIMULATED=1 SKIP=")
