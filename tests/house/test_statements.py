"""The statements of a module are found wherever they stand, and no expression is."""

from __future__ import annotations

import ast

from tools.house_measures.statements import statements

from support.house import ROOT, tree

TEXT = """
import a
try:
    import b
except ValueError:
    import c
else:
    import d
finally:
    import e
match 1:
    case 1:
        import f
for _ in ():
    import g
else:
    import h
def function():
    class Inner:
        import i
use = lambda: 1 if use else 2
with use: import j
"""


def test_statements_come_in_their_order_wherever_they_stand() -> None:
    found = [node for node in statements(ast.parse(TEXT)) if isinstance(node, ast.Import)]
    assert [node.names[0].name for node in found] == list("abcdefghij")


def test_no_statement_of_a_real_module_is_left_out() -> None:
    module = tree(ROOT / "tools/house_measures/ownership.py")
    everything = {node for node in ast.walk(module) if isinstance(node, ast.stmt)}
    found = list(statements(module))
    assert {node for node in found if isinstance(node, ast.stmt)} == everything
    assert not any(isinstance(node, ast.expr) for node in found)
