"""Every source file has its test, in the mirror of its room.

``broker/oncelog_broker/log/segment.py`` has ``tests/broker/log/test_segment.py``. Small modules of
a group share a file there, in which each has a section, ``# ---- time_index.py: what is tested``.
Exempt are files that only declare (no function with a body of its own), packages' ``__init__``, and
the list below, which says why.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.house import ROOMS, ROOT, name_of, sources, tree

TESTED_ELSEWHERE = {
    "broker/oncelog_broker/__main__.py": "tests/integration starts real processes",
    "bench/": "programs that measure; a test of them would measure the test",
    "testing/oncelog_testing/turns/": "tests/testing/test_turns.py runs all of it, in small",
    "testing/oncelog_testing/memory/": "tests/ports: fakes have the contract suites of their ports",
}
"""Path, or beginning of a path that ends in a slash, to where or why not."""


def is_exempt(path: Path) -> bool:
    name = name_of(path)
    for exempt in TESTED_ELSEWHERE:
        if name == exempt or (exempt.endswith("/") and name.startswith(exempt)):
            return True
    return path.name == "__init__.py" or only_declares(path)


def only_declares(path: Path) -> bool:
    """Return whether the module only has ports, tables and messages: no function does anything."""
    return not any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and does_something(node)
        for node in ast.walk(tree(path))
    )


def does_something(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return not all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in function.body
    )


def mirror(path: Path) -> Path:
    room, _, *folders, name = path.relative_to(ROOT).parts
    return ROOT.joinpath("tests", room, *folders, f"test_{name.removeprefix('_')}")


SECTION = re.compile(r"^# ---- (\w+\.py):", re.MULTILINE)


def has_a_section(path: Path) -> bool:
    """Return whether a test file in the mirror of this module's folder has a section for it."""
    return any(
        path.name in SECTION.findall(each.read_text())
        for each in mirror(path).parent.glob("test_*.py")
    )


def test_the_mirror() -> None:
    source = ROOT / "broker/oncelog_broker/log/segment.py"
    assert name_of(mirror(source)) == "tests/broker/log/test_segment.py"
    assert has_a_section(source.with_name("time_index.py"))
    assert not has_a_section(source.with_name("time_inde.py"))


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_every_file_has_its_test(room: str) -> None:
    missing = [
        f"{name_of(path)} wants {name_of(mirror(path))}"
        for path in sources(room)
        if not is_exempt(path) and not mirror(path).exists() and not has_a_section(path)
    ]
    assert not missing


def test_exemptions_are_needed() -> None:
    stale = [name for name in TESTED_ELSEWHERE if not (ROOT / name).exists()]
    assert not stale, "these no longer exist: take them off the list"
