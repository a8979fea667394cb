"""Checkers are tried on hand-made histories: the stories in ``stories/``."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulation.stories import Case, assert_enough, assert_found, read_cases

FOLDER = Path(__file__).parent / "stories"
TOLD_OF = {
    "groups": (13, 15, 16, 17, 24, 25, 28),
    "orders": (10, 11, 12),
    "polls": (13, 14, 15, 16, 26),
    "rights": (34, 35),
    "transactions": (5, 6, 7, 20, 21, 22, 31),
    "writes": (1, 2, 3, 4, 5, 6, 27, 29),
}
"""Anomalies that each file must tell of often enough."""

CASES = {name: read_cases(FOLDER / f"{name}.txt") for name in TOLD_OF}


def test_every_file_is_read() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(TOLD_OF)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{file}-{case.anomaly}-{case.name}")
        for file, cases in CASES.items()
        for case in cases
    ],
)
def test_a_story_has_the_anomalies_that_it_tells_of(case: Case) -> None:
    assert_found(case)


@pytest.mark.parametrize("file", TOLD_OF)
def test_there_are_enough_stories(file: str) -> None:
    assert_enough(CASES[file], TOLD_OF[file])
