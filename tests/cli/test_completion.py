"""Completion is put where each shell finds it, and a shell that reads it completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog_cli.completion import PLACES
from oncelog_cli.main import run_command


@pytest.fixture(params=list(PLACES))
def shell(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test gets a shell with a home of its own, one after the other."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{request.param}")
    return str(request.param)


def test_the_script_is_shown_and_installed_once(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = PLACES[shell]
    startup = None if place.startup is None else tmp_path / place.startup
    if startup is not None:
        startup.write_text("alias ll='ls -l'")
    assert run_command(["--show-completion"]) == 0
    shown = capsys.readouterr().out
    assert f"_ONCELOG_COMPLETE={shell}_complete" in shown
    for _ in range(2):
        assert run_command(["--install-completion"]) == 0
        assert place.script in capsys.readouterr().out
    assert (tmp_path / place.script).read_text().strip() == shown.strip()
    if startup is not None:
        first, second = startup.read_text().splitlines()
        assert first == "alias ll='ls -l'"
        assert str(tmp_path / place.script) in second


def test_an_unknown_shell_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run_command(["--show-completion"]) == 2
    assert "completion is for bash, zsh, fish, and $SHELL is '/bin/tcsh'" in capsys.readouterr().err


def test_a_real_bash_completes_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash on this machine")
    command = tmp_path / "bin" / "oncelog"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m oncelog_cli "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "SHELL": bash,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    script = (
        "oncelog --install-completion > /dev/null && source ~/.bashrc && "
        "COMP_WORDS=(oncelog topics de) && COMP_CWORD=2 && "
        "$(complete -p oncelog | sed 's/.*-F \\([^ ]*\\).*/\\1/') oncelog de topics && "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["describe", "delete"], done.stderr
