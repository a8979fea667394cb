"""One seed and many are run: some are clean, some are not, and the commands print it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog.history_events import HistoryEvent
from simulation.__main__ import SEEDS_FILE, Planned, kept_seeds, main
from simulation.campaign import Options, Run, run_seed
from simulation.checkers.violation import Rules, Violation
from simulation.history import History
from simulation.knobs import Knobs
from simulation.nemesis import FAULTS, Nemesis
from simulation.shrink import promise_of
from unsafe.replication import without

pytestmark = pytest.mark.usefixtures("failed_runs")
SEED = 4
CRASHES = ("kill_one", "kill_chasing", "kill_all", "pause", "isolate_from_followers")


def last_line(text: str) -> dict[str, object]:
    result: dict[str, object] = json.loads(text.splitlines()[-1])
    return result


# ---- one seed


def test_a_clean_seed_is_clean() -> None:
    result = run_seed(SEED, Options(safety_s=5, faults=["kill_one"]))
    assert result.clean
    assert result.problems == []
    assert result.trace_tail == ""
    assert result.simulated_s > 5
    assert set(result.faults) == {"kill_one"}
    assert sum(result.faults.values()) == len(result.fault_ids)
    assert result.coverage["leader_elected"] > 0
    asked = [event for event in result.events if event.type == "invoke"]
    heard = [event for event in result.events if event.type == "ok" and event.f == "send"]
    assert len(asked) > 100
    assert len(heard) > 10
    assert all(isinstance(event, HistoryEvent) for event in result.events)


def test_a_broken_rule_is_caught_and_the_promise_named() -> None:
    rules = {"safeguards": without("truncate_on_divergence")}
    for seed in range(1, 20):
        result = run_seed(seed, Options(safety_s=10, faults=CRASHES, safeguards=rules))
        if not result.clean and promise_of(result)[0] in "AI":
            break  # others may not converge, which names no promise
    assert run_seed(seed, Options(safety_s=10, faults=CRASHES)).clean
    assert promise_of(result)[0] in "AI"
    assert promise_of(result)[1:].isdigit()
    assert len(result.trace_tail.splitlines()) > 10


def test_who_does_not_recover_in_time_breaks_liveness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.campaign.CONVERGE_S", 0.0)
    result = run_seed(SEED, Options(safety_s=2, faults=["kill_all"]))
    assert promise_of(result) == "liveness"


def test_a_fault_that_fails_is_no_clean_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(nemesis: Nemesis) -> None:
        raise KeyError("no such broker")

    monkeypatch.setitem(FAULTS, "kill_one", fail)
    result = run_seed(SEED, Options(safety_s=3, faults=["kill_one"]))
    assert promise_of(result) == "simulator"


def test_offsets_may_go_earlier_by_what_the_clocks_of_brokers_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 990999: who committed had the slowest clock, and who expired it the fastest."""
    told: list[float | None] = []

    def judged(history: History, rules: Rules, **others: object) -> list[Violation]:
        told.append(rules.offsets_expire_after_s)
        return []

    monkeypatch.setattr("simulation.campaign.verdict", judged)
    run = Run(SEED, Options(safety_s=1, faults=(), knobs=Knobs(offsets_retention_ms=4000)))
    run.loop.run(run.main())
    errors_ms = [clock.error_ms for clock in run.cluster.clocks.values()]
    assert max(errors_ms) > min(errors_ms)
    assert told == [pytest.approx((4000 - max(errors_ms) + min(errors_ms)) / 1000)]


def test_options() -> None:
    knobs = Knobs(partitions=1, clients=1)
    lines: list[str] = []
    logged: list[str] = []
    options = Options(
        safety_s=3, knobs=knobs, faults=["kill_one"], trace=lines.append, logs=logged.append
    )
    result = run_seed(SEED, options)
    assert result.knobs == knobs.describe() == "partitions=1 clients=1"
    assert any(" fault 0.0 kill_one" in line for line in lines)
    assert any("broker-1" in line and "INFO" in line for line in logged)


def test_leaving_out_a_fault_leaves_the_others() -> None:
    def applied(*skip: str) -> dict[str, str]:
        lines: list[str] = []
        run_seed(SEED, Options(safety_s=8, skip=skip, trace=lines.append))
        words = [line.split() for line in lines if " fault " in line]
        return {each[3]: each[4] for each in words}

    whole = applied()
    assert len(whole) > 2
    first = next(iter(whole))
    less = applied(first)
    assert first not in less
    for id in whole.keys() & less.keys():
        assert whole[id] == less[id]


def test_each_seed_draws_its_faults_and_knobs() -> None:
    runs = [run_seed(seed, Options(safety_s=0.2)) for seed in range(1, 6)]
    assert len({run.knobs for run in runs}) == 5
    assert len({run.trace_hash for run in runs}) == 5


# ---- the commands


def test_a_campaign_ends_with_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seeds", "2", "--from", "30", "--seconds", "2", "--jobs", "2"]
    assert main(["campaign", *arguments]) == 0
    summary = last_line(capsys.readouterr().out)
    assert list(summary) == [
        "seeds", "clean", "failed", "simulated_seconds", "wall_seconds", "coverage",
    ]  # fmt: skip
    assert summary["seeds"] == summary["clean"] == 2
    assert summary["failed"] == []
    assert isinstance(summary["simulated_seconds"], float)
    assert summary["simulated_seconds"] > 4
    coverage = summary["coverage"]
    assert isinstance(coverage, dict)
    assert coverage["controller_elected"] >= 2
    assert any(name.startswith("fault_") for name in coverage)


def test_a_campaign_that_fails_says_how_to_replay(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulation.campaign.CONVERGE_S", 0.0)
    arguments = ["--seeds", "1", "--from", "30", "--seconds", "2", "--jobs", "1"]
    assert main(["campaign", *arguments]) == 1
    out = capsys.readouterr().out
    assert last_line(out)["failed"] == [30]
    assert last_line(out)["clean"] == 0
    assert "seed 30 FAILED" in out
    assert "liveness: " in out
    assert "make sim SEED=30 SECONDS_SIMULATED=2 " in out
    assert "make sim-shrink SEED=30 SECONDS_SIMULATED=2\n" in out


def test_one_seed_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, history = tmp_path / "trace", tmp_path / "history"
    arguments = ["--seconds", "3", "--faults", "kill_one,pause", "--skip", "0.0"]
    files = ["--trace", str(trace), "--history", str(history)]
    assert main(["run", str(SEED), *arguments, *files, "--log"]) == 0
    out = capsys.readouterr().out
    assert f"seed {SEED}: clean" in out
    assert "broker-1  INFO" in out
    assert " fault 0.0 " not in trace.read_text()
    events = [json.loads(line) for line in history.read_text().splitlines()]
    assert {event["type"] for event in events} >= {"invoke", "ok"}


def test_kept_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("# what was found\n\n17  # lost an ack\nstory-3\n  18 secured=0 # x\n")
    assert kept_seeds(path) == [
        Planned(17, {}),
        Planned("story-3", {}),
        Planned(18, {"secured": False}),
    ]
    seeds = [kept.seed for kept in kept_seeds(SEEDS_FILE)]
    assert len(set(seeds)) == len(seeds)


def test_ablations_end_with_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--only", "truncate_on_divergence", "--seeds", "5", "--jobs", "1"]
    assert main(["ablations", *arguments]) == 0
    out = capsys.readouterr().out
    summary = last_line(out)
    needed = summary.pop("seeds_needed")
    assert summary == {"switches": 1, "caught": 1, "missed": []}
    assert isinstance(needed, dict)
    assert list(needed) == ["truncate_on_divergence"]
    assert "truncate_on_divergence: caught after " in out
