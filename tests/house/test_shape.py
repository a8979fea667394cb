"""Files, functions and lines stay small enough to be read."""

from __future__ import annotations

import ast

from support.house import ROOT, name_of, sources, sources_of_tests, tree

FILE_LINES_MAX = 800
"""A class that is one thing may have so many. A file of more than 600 lines is worth the question
whether it holds two ideas; it is split by idea, not by number."""

FUNCTION_LINES_MAX = 60
LINE_LENGTH_MAX = 100


def oversized() -> dict[str, int]:
    found: dict[str, int] = {}
    for path in [*sources(), *sources_of_tests(), *sorted((ROOT / "tools").glob("*.py"))]:
        name = name_of(path)
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES_MAX:
            found[name] = lines
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    found[f"{name}::{node.name}"] = length
    return found


def test_nothing_outgrows_its_shape() -> None:
    assert not oversized(), f"files: {FILE_LINES_MAX} lines, functions: {FUNCTION_LINES_MAX}"


def test_lines_fit() -> None:
    long = [
        f"{name_of(path)}:{number}"
        for path in [*sources(), *sources_of_tests()]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LINE_LENGTH_MAX
    ]
    assert not long, f"lines have at most {LINE_LENGTH_MAX} characters"
