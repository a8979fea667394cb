"""Only a person sees the progress bar."""

from __future__ import annotations

import sys

import pytest

from oncelog_cli.progress import ProgressBar


@pytest.mark.parametrize("wanted", [True, False])
def test_nothing_in_a_pipe(wanted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("to t", 10, wanted=wanted) as bar:
        bar.show(5, "5 records")
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_a_bar_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar("to t", 10) as bar:
        bar.show(5, "5 records")
    captured = capsys.readouterr()
    assert "5 records" in captured.err
    assert captured.out == ""


def test_not_when_it_is_not_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with ProgressBar("to t", None, wanted=False) as bar:
        bar.show(5, "5 records")
    assert capsys.readouterr().err == ""
