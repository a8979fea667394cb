"""A user's own program sees the types: mypy --strict and pyright check it.

``project/right.py`` may have no error. Of ``project/wrong.py`` each line that is marked must have
one, in the words that stand there, and no other line may. The project is checked where it does not
see this checkout's settings; the package is found as any installed one is.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from support.house import ROOT

PROJECT = Path(__file__).parent / "project"
CACHE = ROOT / ".mypy_cache" / "users_project"
MARK = "  # wrong: "
REPORTED = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$")

Found = dict[tuple[str, int], list[str]]
"""The messages of each line (its file's name, its number) that has an error."""


def expected() -> dict[tuple[str, int], str]:
    lines = (PROJECT / "wrong.py").read_text().splitlines()
    return {
        ("wrong.py", number): line.split(MARK)[1]
        for number, line in enumerate(lines, 1)
        if MARK in line
    }


def run(project: Path, *command: str) -> str:
    """Return what a checker prints, with an empty home, and without a way to download anything."""
    environment = {"HOME": str(project), "PATH": str(project)}
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        environment[proxy] = "http://127.0.0.1:9"
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def by_mypy(project: Path) -> Found:
    found: Found = defaultdict(list)
    output = run(
        project,
        *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="),
        *("--cache-dir", str(CACHE), "right.py", "wrong.py"),
    )
    for line in output.splitlines():
        match = REPORTED.match(line)
        if match is not None:
            found[match["file"], int(match["line"])].append(match["text"])
        else:
            assert ": note: " in line, line
    return dict(found)


def by_pyright(project: Path) -> Found:
    settings = {"typeCheckingMode": "strict"}
    (project / "pyrightconfig.json").write_text(json.dumps(settings))
    output = run(
        project, sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable
    )
    report = json.loads(output)
    assert report["summary"]["filesAnalyzed"] == len(list(project.glob("*.py")))
    found: Found = defaultdict(list)
    for each in report["generalDiagnostics"]:
        name, line = Path(each["file"]).name, each["range"]["start"]["line"] + 1
        if name == "wrong.py" and each["rule"].startswith("reportUnknown"):
            continue  # what follows from the mistake, maybe a line later
        found[name, line].append(each["message"])
    return dict(found)


@pytest.mark.slow
@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_a_users_project(check: Callable[[Path], Found], tmp_path: Path) -> None:
    project = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    wanted, found = expected(), check(project)
    assert len(wanted) > 40
    assert sorted(found) == sorted(wanted), found
    otherwise = {
        line: found[line]
        for line, words in wanted.items()
        if not any(words in message for message in found[line])
    }
    assert not otherwise
