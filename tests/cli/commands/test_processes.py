"""The command ``oncelog bench`` becomes the right program."""

from __future__ import annotations

import pytest

from support.shell import as_process


@pytest.mark.slow
def test_bench_gets_every_argument() -> None:
    done = as_process("bench", "--help")
    assert done.returncode == 0, done.stderr
    assert "--peers" in done.stdout
    done = as_process("bench", "--only", "nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr
