"""Secrets are compared in constant time: ``==`` tells by its time how much of one is right [S5]."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from support.house import name_of, sources, tree

SASL = [path for path in sources("protocol") if "/sasl/" in name_of(path)]

SECRET = re.compile(r"(?:^|_)(?:keys?|proof|signature|password|prepared|salted|token|secret)$")
"""The last word of the name of what nobody else may know, or may guess byte by byte."""

ELSEWHERE = re.compile(
    r"(?:^|_)(?:stored_key|server_key|client_key|proof|signature|password|salted|token|secret)$"
)
"""The same where keys are those of records and of dictionaries."""

TYPED_TWICE = {"broker/oncelog_broker/store_commands.py"}
"""Both passwords come from the same person, who is at the keyboard."""

COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
METHODS = {"startswith", "endswith", "__eq__", "count", "find", "index"}


def compared(module: ast.Module, words: re.Pattern[str] = SECRET) -> Iterator[str]:
    """Yield the comparisons that end at the first byte that differs."""
    for node in ast.walk(module):
        if isinstance(node, ast.Compare):
            quick = any(isinstance(operator, COMPARISONS) for operator in node.ops)
            if quick and any(is_secret(each, words) for each in (node.left, *node.comparators)):
                yield ast.unparse(node)
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=args):
                if method in METHODS and any(is_secret(each, words) for each in (value, *args)):
                    yield ast.unparse(node)


def is_secret(node: ast.expr, words: re.Pattern[str]) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return words.search(name) is not None
        case ast.Call(func=ast.Attribute(value=value, attr="encode" | "hex")):
            return is_secret(value, words)
    return False


@pytest.mark.cve("2021-38153")
def test_only_compare_digest_compares_secrets() -> None:
    assert len(SASL) > 5
    assert [f"{name_of(path)}: {found}" for path in SASL for found in compared(tree(path))] == []


@pytest.mark.cve("2021-38153")
@pytest.mark.parametrize("room", ["protocol", "runtime", "broker", "controller", "client"])
def test_nor_does_anything_else_in_a_room(room: str) -> None:
    paths = [path for path in sources(room) if name_of(path) not in TYPED_TWICE]
    found = [
        f"{name_of(path)}: {each}" for path in paths for each in compared(tree(path), ELSEWHERE)
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "proof == wanted",
        "wanted != self._stored_key",
        "kept.server_key in (b'', shown)",
        "password.encode() == other",
        "proof.startswith(wanted)",
        "wanted.startswith(token)",
    ],
)
def test_a_comparison_that_tells_is_found(source: str) -> None:
    assert list(compared(ast.parse(source))) == [source]


@pytest.mark.parametrize(
    "source",
    ["hmac.compare_digest(proof, wanted)", "len(proof) != 32", "keys is None", "name == other"],
)
def test_what_tells_nothing(source: str) -> None:
    assert list(compared(ast.parse(source))) == []
