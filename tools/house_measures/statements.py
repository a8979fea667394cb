"""A measure finds the statements of a module here, without its expressions.

What is imported, defined and documented stands in statements, which are a tenth of a syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BODIES = ("body", "handlers", "orelse", "finalbody", "cases")


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the module and all that can hold a statement or is one, in the order of the lines.

    The cases of a ``match`` and the handlers of a ``try`` are among them; expressions are not.
    """
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in reversed(_BODIES):
            below = getattr(node, name, None)
            if isinstance(below, list):  # the body of a lambda or of an `a if b else c` is not
                todo.extend(reversed(below))
