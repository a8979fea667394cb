"""The verdict of ``make bench-compare``: a row is worse only where the ranges lie apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tools import tool

bench_compare = tool("bench_compare")
compare = bench_compare.compare


@pytest.mark.parametrize(
    ("here", "there", "lower_is_better", "verdict"),
    [
        ([1.0, 2.0], [3.0, 4.0], True, "better"),
        ([1.0, 2.0], [3.0, 4.0], False, "worse"),
        ([3.0, 4.0], [1.0, 2.0], True, "worse"),
        ([3.0, 4.0], [1.0, 2.0], False, "better"),
        ([1.0, 3.0], [2.0, 4.0], True, "same"),
        ([2.0], [2.0], True, "same"),
        ([2.0, 3.0], [1.0, 2.0], True, "same"),
    ],
)
def test_the_verdict(
    here: list[float], there: list[float], lower_is_better: bool, verdict: str
) -> None:
    row = compare("a row", "ms", here, there, lower_is_better=lower_is_better)
    assert row.verdict == verdict


def test_the_ratio_is_of_medians() -> None:
    row = compare("a row", "ms", [1.0, 2.0, 30.0], [4.0, 4.0, 4.0], lower_is_better=True)
    assert row.ratio == 0.5
    assert compare("a row", "ms", [1.0], [0.0], lower_is_better=True).ratio == 0.0


def benchmark(folder: Path, failures: int) -> Path:
    """Make a checkout whose benchmark fails so often before it prints a row."""
    program = folder / ".venv/bin/oncelog"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        "echo run >>runs\n"
        f'[ "$(wc -l <runs)" -gt {failures} ] || exit 1\n'
        'echo \'{"rows": [{"name": "a row", "value": 1.0, "unit": "s"}]}\'\n'
    )
    program.chmod(0o755)
    return folder


def test_a_run_that_fails_is_made_again(tmp_path: Path) -> None:
    (row,) = bench_compare.measure(benchmark(tmp_path / "twice", 2), [])
    assert row["name"] == "a row"
    with pytest.raises(SystemExit, match="3 runs in turn failed"):
        bench_compare.measure(benchmark(tmp_path / "always", 3), [])
