"""These tests check where the user's cache is."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_cli.places import cache_directory


def test_the_cache_is_where_the_desktop_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_directory() == tmp_path / ".cache" / "oncelog"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == tmp_path / ".cache" / "oncelog"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert cache_directory() == tmp_path / "other" / "oncelog"
