"""The wheel holds all that the console serves: its pages need nothing from anywhere else."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.network import why_not
from support.house import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.integration]

PACKAGE = "oncelog_console"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which the wheel is unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    done = subprocess.run(
        [*command, str(folder), str(ROOT)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        # What builds wheels may have to be fetched.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(done.stderr.strip()[-500:])
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def served(package: Path) -> set[str]:
    """Return the names of the files that are no Python, below a package."""
    return {
        str(path.relative_to(package))
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }


def test_what_the_console_serves_is_in_the_wheel(wheel: Path) -> None:
    there = served(ROOT / "console" / PACKAGE)
    assert "static/htmx.min.js" in there
    assert served(wheel / PACKAGE) == there


def test_it_works_without_a_network(wheel: Path) -> None:
    """The console of the wheel runs where there is nothing but the loopback address."""
    reason = why_not()
    if reason is not None:
        (pytest.fail if os.environ.get("CI") and os.geteuid() == 0 else pytest.skip)(reason)
    program = Path(__file__).with_name("offline_program.py")
    inside = f"ip link set lo up && exec {shlex.join([sys.executable, str(program)])}"
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    done = subprocess.run(
        ["unshare", "--net", "/bin/sh", "-c", inside],
        env=environment,
        cwd=wheel,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert set(seen.values()) == {200}, seen
    names = {each.partition("?")[0] for each in seen}
    assert {"/static/console.css", "/static/htmx.min.js", "/static/page.js"} <= names
