"""Say why, where the reader stands: every module opens with what it owns, every public name too."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

from support.house import ROOT, name_of, sources, sources_of_tests, tree


def test_every_module_says_what_it_owns() -> None:
    paths = [*sources(), *sources_of_tests(), *sorted((ROOT / "tools").glob("*.py"))]
    silent = [name_of(path) for path in paths if not ast.get_docstring(tree(path))]
    assert not silent


def test_every_public_class_says_what_it_is() -> None:
    silent = [
        f"{name_of(path)}::{node.name}"
        for path in sources()
        for node in tree(path).body
        if isinstance(node, ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not silent


@pytest.mark.parametrize("package", ["oncelog", "oncelog.blocking"])
def test_the_public_face_is_documented(package: str) -> None:
    module = importlib.import_module(package)
    silent = []
    for name in module.__all__:
        item = getattr(module, name)
        if not (inspect.isclass(item) or inspect.isfunction(item)):
            continue
        if not inspect.getdoc(item):
            silent.append(name)
        if inspect.isclass(item) and not issubclass(item, BaseException):
            silent += [
                f"{name}.{member}"
                for member, value in vars(item).items()
                if not member.startswith("_")
                and (inspect.isfunction(value) or isinstance(value, property))
                and not inspect.getdoc(value)
            ]
    assert not silent
