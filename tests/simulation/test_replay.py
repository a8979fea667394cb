"""The same seed gives the same run: here and elsewhere. ``make sim-replay`` tries 100."""

from __future__ import annotations

import json

import pytest

from simulation.__main__ import main
from simulation.campaign import Options, run_seed
from simulation.replay import HASH_SEEDS, traces

SECONDS = 10.0
SEEDS: tuple[int | str, ...] = (11, 12)


def test_a_seed_gives_one_run_here() -> None:
    lines: list[list[str]] = [[], [], []]
    first, other, again = (
        run_seed(seed, Options(safety_s=3.0, trace=lines[number].append))
        for number, seed in enumerate((11, 12, 11))
    )
    assert lines[0] == lines[2]
    assert first.trace_hash == again.trace_hash
    assert first.events == again.events
    assert first.coverage == again.coverage
    assert (first.steps, first.simulated_s) == (again.steps, again.simulated_s)
    assert other.trace_hash != first.trace_hash
    assert len(lines[0]) > 1000


def test_a_seed_gives_one_run_under_every_hash_seed() -> None:
    runs = [traces(SEEDS, SECONDS, hash_seed=each, jobs=2) for each in HASH_SEEDS]
    assert len({run[0].order for run in runs}) == len(HASH_SEEDS)
    for number in range(len(SEEDS)):
        assert len({run[number].trace_hash for run in runs}) == 1
    assert runs[0][0].trace_hash != runs[0][1].trace_hash
    here = run_seed(SEEDS[0], Options(safety_s=SECONDS))
    assert here.trace_hash == runs[0][0].trace_hash


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--seeds", "2", "--from", "20", "--seconds", "1", "--jobs", "1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last) == {"seeds": 2, "equal": 2, "different": []}
