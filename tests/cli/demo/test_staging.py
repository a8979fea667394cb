"""A demo's job gets a cluster for as long as it takes, and a verdict for all to see."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.demo import staging
from oncelog_cli.demo.view import DemoView, PlainView
from oncelog_cli.local.cluster import LocalCluster


class Outcome:
    def __init__(self, *, ok: bool) -> None:
        self.ok = ok

    def as_dict(self) -> dict[str, Any]:
        return {"read": 336776, "seconds": 1.5, "ok": self.ok}


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    staging.show("demo", Outcome(ok=True), as_json=False, kept="All kept.", broken="gone.")
    assert capsys.readouterr().out.splitlines() == [
        "",
        "  read               336,776",
        "  seconds            1.5",
        "  ok                 True",
        "",
        "All kept.",
    ]
    staging.show("demo", Outcome(ok=False), as_json=False, kept="All kept.", broken="gone.")
    assert capsys.readouterr().out.splitlines()[-1] == "FAILED: gone."


def test_a_line_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    staging.show("demo", Outcome(ok=False), as_json=True, kept="All kept.", broken="gone.")
    assert json.loads(capsys.readouterr().out) == {
        "_command": "demo",
        "_version": 1,
        "read": 336776,
        "seconds": 1.5,
        "ok": False,
    }


def test_the_cluster_ends_with_the_job_however_it_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(LocalCluster, "start", lambda _: calls.append("start"))
    monkeypatch.setattr(LocalCluster, "stop", lambda _: calls.append("stop"))

    class Failing:
        async def run(self, cluster: LocalCluster, view: DemoView) -> Outcome:
            assert len(cluster.brokers) == 3
            calls.append("run")
            raise OSError("the job")

    with pytest.raises(OSError, match="the job"):
        staging.run_on_cluster(tmp_path, Failing(), PlainView(io.StringIO()))
    assert calls == ["start", "run", "stop"]
