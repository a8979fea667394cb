"""These tests check which zone a task counts in."""

from __future__ import annotations

from datetime import timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from pipeline.spark_task import spark_task
from pyspark_oncelog import zones
from pyspark_oncelog.option_values import OptionError


def name() -> str:
    return str(zones.session_zone())


def test_what_somebody_has_set_comes_first() -> None:
    runner_conf = SimpleNamespace(timezone="Asia/Tokyo")
    with spark_task():
        context = TaskContext.get()
        assert context is not None
        assert name() == "Asia/Tokyo"
        context._localProperties = {zones.SETTING: "Europe/Berlin"}
        assert name() == "Europe/Berlin"
    del runner_conf


def test_this_machines_where_nobody_says_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TZ", ":America/New_York")
    assert name() == "America/New_York"
    monkeypatch.delenv("TZ")
    link = tmp_path / "localtime"
    monkeypatch.setattr(zones, "LOCALTIME", link)
    assert zones.session_zone() is timezone.utc  # noqa: UP017
    link.symlink_to("/usr/share/zoneinfo/Asia/Kolkata")
    assert name() == "Asia/Kolkata"


def test_a_zone_that_this_machine_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Mars/Crater")
    with pytest.raises(OptionError, match=r"timeZone: 'Mars/Crater'.*Remedy"):
        zones.session_zone()
