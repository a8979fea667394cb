"""The product ships safe code only: what goes without a rule lives under ``tests/unsafe``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.house import name_of, sources, tree

SAFEGUARDS = [path for path in sources() if path.name == "safeguards.py"]


def test_the_rules_of_every_room_are_seen() -> None:
    assert {name_of(path).split("/")[0] for path in SAFEGUARDS} == {
        "broker",
        "client",
        "controller",
    }


@pytest.mark.parametrize("path", SAFEGUARDS, ids=name_of)
def test_a_rule_is_a_method_and_no_switch(path: Path) -> None:
    """With a field that somebody can turn, both sides would be in the product."""
    assert list(switches(tree(path))) == []


def test_the_product_has_one_kind_of_safeguards() -> None:
    assert [f"{name_of(path)}: {kind}" for path in sources() for kind in kinds(tree(path))] == []


def test_switches_and_other_kinds_are_found() -> None:
    module = ast.parse("class Lax(LogSafeguards):\n    fence: bool = True\n    name: str = ''\n")
    assert list(switches(module)) == ["fence"]
    assert list(kinds(module)) == ["Lax"]


def switches(module: ast.Module) -> Iterator[str]:
    """Yield the fields that hold a truth value."""
    for node in ast.walk(module):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "bool":
            yield ast.unparse(node.target)


def kinds(module: ast.Module) -> Iterator[str]:
    """Yield the classes that are derived from a class of rules."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            if any(base.endswith("Safeguards") for base in bases):
                yield node.name
