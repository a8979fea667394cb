"""``oncelog pipeline demo`` as a shell sees it, around the job itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog_cli.demo import pipeline_command
from oncelog_cli.demo.delays import Judge
from oncelog_cli.demo.flights import FlightsMissingError
from oncelog_cli.main import run_command

KNOWN: dict[str, Any] = {
    "flights": 0,
    "late_rows": 0,
    "batches": 2,
    "drivers_killed": 1,
    "brokers_killed": 1,
    "lag": 0,
    "seconds": 1.0,
}


def test_without_the_data_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise FlightsMissingError("pip install 'oncelog[demo]'")

    monkeypatch.setattr(pipeline_command, "flights_path", missing)
    assert run_command(["pipeline", "demo"]) == 2
    assert "oncelog[demo]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lag", "code", "word"),
    [(0, 0, "Every total came once"), (3, 1, "FAILED: totals are missing")],
)
def test_the_verdict_is_said_in_words_and_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lag: int,
    code: int,
    word: str,
) -> None:
    verdict = Judge({}).verdict(**{**KNOWN, "lag": lag})
    monkeypatch.setattr(pipeline_command, "run_on_cluster", lambda *_: verdict)
    assert run_command(["pipeline", "demo"]) == code
    assert word in capsys.readouterr().out
    assert run_command(["pipeline", "demo", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert (document["_command"], document["_version"]) == ("pipeline demo", 1)
    assert document["ok"] is (code == 0)
