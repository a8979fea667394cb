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

COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
METHODS = {"startswith", "endswith", "__eq__", "count", "find", "index"}


def compared(module: ast.Module) -> Iterator[str]:
    """Yield the comparisons that end at the first byte that differs."""
    for node in ast.walk(module):
        if isinstance(node, ast.Compare):
            quick = any(isinstance(operator, COMPARISONS) for operator in node.ops)
            if quick and any(map(is_secret, (node.left, *node.comparators))):
                yield ast.unparse(node)
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=args):
                if method in METHODS and any(map(is_secret, (value, *args))):
                    yield ast.unparse(node)


def is_secret(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return SECRET.search(name) is not None
        case ast.Call(func=ast.Attribute(value=value, attr="encode" | "hex")):
            return is_secret(value)
    return False


@pytest.mark.cve("2021-38153")
def test_only_compare_digest_compares_secrets() -> None:
    assert len(SASL) > 5
    assert [f"{name_of(path)}: {found}" for path in SASL for found in compared(tree(path))] == []


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
