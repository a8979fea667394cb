"""Names that were misspelled are recognised, and others are not."""

from __future__ import annotations

import pytest

from oncelog_runtime.spelling import nearest

KNOWN = {"log_dirs": 1, "log_level": 2, "listeners": 3}


@pytest.mark.parametrize(
    ("name", "likeness", "found"),
    [
        ("log_dir", 0.6, "log_dirs"),
        ("log_leval", 0.6, "log_level"),
        ("zzz", 0.6, None),
        ("log", 0.9, None),
        ("", 0.6, None),
    ],
)
def test_the_most_like_one_is_found(name: str, likeness: float, found: str | None) -> None:
    assert nearest(name, KNOWN, likeness) == found
