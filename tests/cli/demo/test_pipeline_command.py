"""``oncelog pipeline demo`` as a shell sees it, where it cannot run."""

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


def test_the_verdict_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline_command._print(Judge({}).verdict(**KNOWN), as_json=False)
    assert "Every total came once" in capsys.readouterr().out
    pipeline_command._print(Judge({}).verdict(**KNOWN), as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert (document["_command"], document["_version"]) == ("pipeline demo", 1)
    known = {**KNOWN, "lag": 3}
    pipeline_command._print(Judge({}).verdict(**known), as_json=False)
    assert "FAILED" in capsys.readouterr().out
