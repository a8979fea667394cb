"""Imports are law: the contracts in pyproject.toml hold."""

from __future__ import annotations

import os
import subprocess
import sys

from support.house import ROOMS, ROOT


def test_the_import_law_holds() -> None:
    path = os.pathsep.join(str(ROOT / room) for room in sorted(ROOMS))
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
