"""One process of a driver finds what another has noted."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_oncelog import driver_notes


def test_notes_are_found_by_kind_and_by_what_they_are_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(driver_notes.FOLDERS, f"{tmp_path},/elsewhere")
    assert driver_notes.find("planned", ("a", None)) is None
    driver_notes.leave("planned", ("a", None), 7)
    driver_notes.leave("planned", ("a", None), 8)
    driver_notes.leave("committed", ("a", None), [1, "run"])
    assert driver_notes.find("planned", ("a", None)) == 8
    assert driver_notes.find("committed", ("a", None)) == [1, "run"]
    assert driver_notes.find("planned", ("b", None)) is None
    for note in (tmp_path / "oncelog").iterdir():
        note.write_text("{")
    assert driver_notes.find("planned", ("a", None)) is None


def test_without_a_folder_there_are_no_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(driver_notes.FOLDERS, raising=False)
    driver_notes.leave("planned", ("a",), 7)
    assert driver_notes.find("planned", ("a",)) is None
    monkeypatch.setenv(driver_notes.FOLDERS, str(tmp_path))
    (tmp_path / "oncelog").write_text("no folder")
    driver_notes.leave("planned", ("a",), 7)
    assert driver_notes.find("planned", ("a",)) is None
