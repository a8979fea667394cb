"""The next press of Tab gets fresh names only, and they are never in the way."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from oncelog_cli import name_cache


def the_file(bare_home: Path) -> Path:
    (found,) = (bare_home / "cache" / "oncelog").iterdir()
    return found


def test_names_are_kept_by_cluster_and_kind(bare_home: Path) -> None:
    assert name_cache.recall("a:1", "topics") is None
    name_cache.keep("a:1", "topics", ["t", "ü"])
    name_cache.keep("a:1", "groups", [])
    assert name_cache.recall("a:1", "topics") == ["t", "ü"]
    assert name_cache.recall("a:1", "groups") == []
    assert name_cache.recall("b:1", "topics") is None


@pytest.mark.parametrize("age_s", [name_cache.FRESH_S + 1, -60])
def test_old_names_count_for_nothing(bare_home: Path, age_s: float) -> None:
    name_cache.keep("a:1", "topics", ["t"])
    document = {"at": time.time() - age_s, "names": ["t"]}
    the_file(bare_home).write_text(json.dumps(document))
    assert name_cache.recall("a:1", "topics") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"at": "x", "names": []}', '{"at": 1e99}'])
def test_a_damaged_file_counts_for_nothing(bare_home: Path, text: str) -> None:
    name_cache.keep("a:1", "topics", ["t"])
    the_file(bare_home).write_text(text)
    assert name_cache.recall("a:1", "topics") is None


def test_a_place_that_cannot_be_written_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    name_cache.keep("a:1", "topics", ["t"])
    assert name_cache.recall("a:1", "topics") is None


def test_without_a_word_of_the_system_it_is_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    name_cache.keep("a:1", "topics", ["t"])
    assert (tmp_path / ".cache" / "oncelog").is_dir()
