"""Somebody else's project runs the tests of docs/testing.md: it is outside of this repository, with
no configuration, and has nothing but what is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.house import ROOT

PAGE = ROOT / "docs" / "testing.md"
FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_they_pass_in_a_project_of_their_own(tmp_path: Path) -> None:
    files = FILE.findall(PAGE.read_text())
    for name, text in files:
        (tmp_path / name).write_text(text)
    tests = sum(len(re.findall(r"^def test_", text, re.MULTILINE)) for _, text in files)
    assert tests > 5
    bare = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:asyncio",
            "-W",
            "error",
            ".",
        ],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) == tests + 1, "one of them has two parameters"
