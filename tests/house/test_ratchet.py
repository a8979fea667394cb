"""What the house has reached stays reached: measures that came to nothing stay at nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.house import ROOT

NOTHING = (
    "cycles",
    "foreign_writes",
    "private_reads",
    "needless_exceptions",
    "citations_without_rule",
    "double_defaults",
    "bad_docstrings",
    "same_named_classes",
)


@pytest.mark.timeout(600)  # mypy checks everything once in a fresh clone; later only what changed
def test_the_house_report_finds_nothing() -> None:
    command = [sys.executable, "tools/house_report.py", "--list"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *findings, counts = done.stdout.splitlines()
    found = json.loads(counts)
    wrong = {name: found[name] for name in NOTHING if found[name]}
    assert not wrong, "\n".join(findings)
