"""``oncelog demo`` as a person and as a program run it: real processes, real data, a real kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog_cli.local.broker import broker_environment

pytestmark = pytest.mark.integration


def run_demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oncelog_cli.main", "demo", *arguments],
        env=broker_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


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


def test_what_cannot_be_asked_for_is_a_usage_error() -> None:
    done = run_demo("--limit", "3")
    assert done.returncode == 2
    assert "--limit" in done.stderr
