"""A shell runs the demos; these tests cover what is around the jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli import extras
from oncelog_cli.demo import staging
from oncelog_cli.demo.delays import Judge
from oncelog_cli.local.broker import broker_environment
from oncelog_cli.local.process import LocalClusterError
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


@pytest.mark.parametrize(
    ("command", "extra"), [(["demo"], "demo"), (["pipeline", "demo"], "demo,spark")]
)
def test_without_its_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    extra: str,
) -> None:
    monkeypatch.setattr(extras, "DEMO", ("no_such_module",))
    assert run_command(command) == 2
    assert f"pip install 'oncelog[{extra}]'" in capsys.readouterr().err


def test_a_cluster_that_does_not_start_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise LocalClusterError("no Java")

    monkeypatch.setattr(staging, "run_on_cluster", fail)
    assert run_command(["demo"]) == 2
    assert capsys.readouterr().err.endswith("error: no Java\n")


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
    monkeypatch.setattr(staging, "run_on_cluster", lambda *_: verdict)
    assert run_command(["pipeline", "demo"]) == code
    assert word in capsys.readouterr().out
    assert run_command(["pipeline", "demo", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert (document["_command"], document["_version"]) == ("pipeline demo", 1)
    assert document["ok"] is (code == 0)


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oncelog_cli.main", "demo", *arguments],
        env=broker_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.integration
def test_a_short_demo_loses_nothing_and_says_so_in_json(tmp_path: Path) -> None:
    done = run_demo("--json", "--limit", "6000", "--rate", "3000", "--dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert list(verdict) == [
        "_command",
        "_version",
        "sent",
        "acknowledged",
        "read",
        "lost",
        "duplicated",
        "out_of_order",
        "leaders_killed",
        "failover_seconds",
        "ok",
    ]
    assert verdict["sent"] == verdict["acknowledged"] == 6000
    assert (verdict["read"], verdict["duplicated"]) == (6000, 0)
    assert (verdict["lost"], verdict["out_of_order"], verdict["leaders_killed"]) == (0, 0, 1)
    assert verdict["ok"] is True
    assert "kill -9 of broker" in done.stderr


@pytest.mark.integration
def test_what_cannot_be_asked_for_is_a_usage_error() -> None:
    done = run_demo("--limit", "3")
    assert done.returncode == 2
    assert "--limit" in done.stderr
