"""The tests of the house know the checkout from here: its rooms, files and syntax trees."""

from __future__ import annotations

import ast
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["CORE", "ROOMS", "ROOT", "generator", "name_of", "sources", "sources_of_tests", "tree"]

ROOT = Path(__file__).resolve().parent.parent.parent

CORE = {
    "protocol": "oncelog_protocol",
    "broker": "oncelog_broker",
    "controller": "oncelog_controller",
    "client": "oncelog",
}
"""Folder to package of the rooms that the simulator runs: they know no machine."""

ROOMS = {
    **CORE,
    "runtime": "oncelog_runtime",
    "cli": "oncelog_cli",
    "console": "oncelog_console",
    "bench": "oncelog_bench",
    "pipeline": "pyspark_oncelog",
    "testing": "oncelog_testing",
}


def sources(*rooms: str) -> list[Path]:
    """Return the modules of some rooms (of all, when none is named), sorted."""
    chosen = rooms or tuple(sorted(ROOMS))
    return [path for room in chosen for path in sorted((ROOT / room).rglob("*.py"))]


def sources_of_tests() -> list[Path]:
    """Return every module below tests/, sorted."""
    return sorted((ROOT / "tests").rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text(), filename=str(path))


def name_of(path: Path) -> str:
    """Return the path from the checkout's root."""
    return str(path.relative_to(ROOT))


def generator(name: str) -> ModuleType:
    """Load a program of ``tools/``, which makes documents."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
