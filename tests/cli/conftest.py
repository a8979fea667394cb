"""Tests of the command line find a machine on which nobody has made profiles or asked for names."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def bare_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Profiles and kept names of one test would be here; processes that it starts inherit it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    for name in ("ONCELOG_PROFILE", "ONCELOG_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    return home
