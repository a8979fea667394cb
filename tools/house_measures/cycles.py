"""The measure finds modules that import each other in a circle.

Every import counts: those under ``TYPE_CHECKING`` and those inside of functions too. That a module
of a package makes Python load the package's ``__init__`` does not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.house_measures.statements import statements


def modules(roots: Iterable[Path]) -> dict[str, Path]:
    """Return the paths of the modules in folders of packages, by the modules' full names."""
    found = {}
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            parts = list(path.relative_to(root).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            if parts:
                found[".".join(parts)] = path
    return found


def cycles(known: Mapping[str, Path]) -> list[list[str]]:
    """Return the groups of modules that reach each other, each sorted, the largest first."""
    graph = {name: sorted(_imported(name, path, known)) for name, path in known.items()}
    groups = [sorted(group) for group in _components(graph) if len(group) > 1]
    return sorted(groups, key=lambda group: (-len(group), group))


def _imported(name: str, path: Path, known: Mapping[str, Path]) -> set[str]:
    found: set[str] = set()
    for node in statements(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = _base(name, path, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.update(each for each in (inner if inner in known else base,) if each in known)
    return found - {name}


def _base(name: str, path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    kept = package[: len(package) - (node.level - 1)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _components(graph: Mapping[str, list[str]]) -> list[list[str]]:
    """Return the strongly connected components (Tarjan 1972), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group: list[str] = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    found.append(group)
    return found
