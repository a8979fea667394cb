"""Syntax trees show traps that break replay from a seed, or that hide a defect.

What ruff can ban by name is banned there too; this test knows the rooms, and what a name means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.house import CORE, ROOT, name_of, sources, sources_of_tests, tree

MACHINE = {
    "time", "random", "secrets", "uuid", "threading", "multiprocessing", "concurrent.futures",
    "mmap", "signal", "subprocess", "pickle", "marshal",
}  # fmt: skip
"""Modules of the machine, which core rooms get through ports or not at all."""

MACHINE_ALLOWED = {
    "controller/oncelog_controller/zookeeper.py": {"threading", "concurrent.futures"},
    "client/oncelog/face.py": {"concurrent.futures"},
    "client/oncelog/core/home.py": {"threading"},
    "client/oncelog/loop_thread.py": {"threading", "concurrent.futures"},
    "client/oncelog/signals.py": {"signal"},
    "broker/oncelog_broker/__main__.py": {"signal"},
}

CALLS_ALLOWED = {
    # All of them are cancelled at the end of a loop that the simulator never runs.
    "client/oncelog/loop_thread.py": {"asyncio.all_tasks"},
    # A program asks it where the cluster is; no client does (tests/client/test_whereabouts.py).
    "client/oncelog/whereabouts.py": {"os.environ.get"},
}

ORDERLESS = {"sorted", "len", "any", "all", "min", "max", "sum", "set", "frozenset", "bool"}
"""Calls whose result does not depend on the order in which they iterate."""

UNSORTED = {"os.listdir", "os.scandir", "glob.glob", "glob.iglob"}

CORE_SOURCES = sources(*sorted(CORE))
EVERY_SOURCE = sources()
RUNTIME = sources("runtime")


def where(path: Path, node: ast.AST) -> str:
    return f"{name_of(path)}:{getattr(node, 'lineno', 0)}"


def imported(path: Path) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module, node
            yield from ((f"{node.module}.{alias.name}", node) for alias in node.names)


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` of an expression, or an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node


def test_core_rooms_know_no_machine() -> None:
    found = [
        f"{where(path, node)} {module}"
        for path in CORE_SOURCES
        for module, node in imported(path)
        if module in MACHINE - MACHINE_ALLOWED.get(name_of(path), set())
    ]
    assert not found


def test_pure_is_a_promise() -> None:
    """A module that calls itself Pure in its first lines does no I/O and waits for nothing."""
    impure = MACHINE | {"asyncio", "socket", "ssl", "os", "aiofiles", "kazoo", "uvloop"}
    impure |= {"oncelog_runtime.channel", "oncelog_runtime.tasks"}
    found = [
        f"{where(path, node)} {module}"
        for path in EVERY_SOURCE
        if re.search(r"\bPure\b", (ast.get_docstring(tree(path)) or "").partition("\n\n")[0])
        for module, node in imported(path)
        if module in impure
    ]
    assert not found


@pytest.mark.parametrize(
    ("banned", "reason"),
    [
        ("asyncio.wait", "returns sets, whose order differs from run to run"),
        ("asyncio.ensure_future", "starts a task that nobody supervises: use Tasks"),
        ("asyncio.all_tasks", "returns a set"),
        ("asyncio.get_event_loop", "the running loop is the only one there is"),
        ("os.urandom", "chance comes from Entropy"),
        ("datetime.now", "the date comes from WallClock"),
        ("datetime.datetime.now", "the date comes from WallClock"),
        ("os.getenv", "the core reads no environment"),
        ("os.environ.get", "the core reads no environment"),
        ("id", "addresses differ from run to run"),
    ],
)
def test_core_rooms_do_not_call(banned: str, reason: str) -> None:
    found = [
        where(path, node)
        for path in [*CORE_SOURCES, *RUNTIME]
        for name, node in calls(path)
        if name == banned and path.name != "__main__.py"
        if banned not in CALLS_ALLOWED.get(name_of(path), ())
    ]
    assert not found, reason


def test_tasks_are_supervised() -> None:
    found = [
        where(path, node)
        for path in CORE_SOURCES
        for name, node in calls(path)
        if name.endswith("create_task") and not name.startswith(("group.", "tasks."))
    ]
    assert not found, "oncelog_runtime.tasks.Tasks, or an asyncio.TaskGroup named group"


def test_connections_are_opened_by_dialers() -> None:
    """Return nothing: whoever opens one by himself goes around encryption."""
    dialer = ROOT / "runtime/oncelog_runtime/dialer.py"
    found = [
        where(path, node)
        for path in EVERY_SOURCE
        if path != dialer
        for name, node in calls(path)
        if name == "RequestChannel.open"
    ]
    assert not found


def test_queues_are_bounded() -> None:
    found = [
        where(path, node)
        for path in EVERY_SOURCE
        for name, node in calls(path)
        if name in {"asyncio.Queue", "asyncio.LifoQueue", "asyncio.PriorityQueue", "Queue"}
        and not node.args
        and not node.keywords
    ]
    assert not found, "a limit on everything"


def test_listings_are_sorted() -> None:
    found = []
    for path in EVERY_SOURCE:
        parents = parents_of(tree(path))
        for name, node in calls(path):
            if name in UNSORTED or name.endswith((".iterdir", ".glob", ".rglob")):
                parent = parents.get(node)
                if not (isinstance(parent, ast.Call) and dotted(parent.func) in ORDERLESS):
                    found.append(where(path, node))
    assert not found, "directories are listed in no order: sorted(...)"


def test_sets_are_not_iterated() -> None:
    found = []
    for path in CORE_SOURCES:
        known = set_names(tree(path))
        parents = parents_of(tree(path))
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                if not is_set(node.iter, known) or feeds_orderless(node, parents):
                    continue
                found.append(f"{where(path, node.iter)} {ast.unparse(node.iter)}")
            elif (
                isinstance(node, ast.Call)
                and dotted(node.func) in {"list", "tuple", "iter"}
                and node.args
                and is_set(node.args[0], known)
            ):
                found.append(f"{where(path, node)} {ast.unparse(node)}")
    assert not found, "the order of a set differs from run to run: sorted(...), or a dict"


def feeds_orderless(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a comprehension makes a set, or goes into sorted, any or the like."""
    if not isinstance(node, ast.comprehension):
        return False
    expression = parents[node]
    if isinstance(expression, ast.SetComp):
        return True
    parent = parents.get(expression)
    return isinstance(parent, ast.Call) and dotted(parent.func) in ORDERLESS


def parents_of(module: ast.Module) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(module) for child in ast.iter_child_nodes(node)}


def set_names(module: ast.Module) -> set[str]:
    """Return attributes of self that are annotated as sets, or assigned one somewhere."""
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.AnnAssign):
            if ast.unparse(node.annotation).startswith(("set[", "frozenset[")):
                name = dotted(node.target)
                names.add(name if "." in name else f"self.{name}")
        elif isinstance(node, ast.Assign) and is_set(node.value, set()):
            names |= {dotted(target) for target in node.targets if "." in dotted(target)}
    return names


def is_set(node: ast.expr, known: set[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        return dotted(node.func) in {"set", "frozenset"}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub):
        return is_set(node.left, known) or is_set(node.right, known)
    return dotted(node) in known


def test_fakes_not_mocks() -> None:
    paths = [*EVERY_SOURCE, *sources_of_tests()]
    found = [
        where(path, node)
        for path in paths
        for module, node in imported(path)
        if module.startswith("unittest.mock") or module == "mock"
    ]
    assert not found, "a fake that passes the port's contract suite, or the real thing"


def test_nothing_is_left_behind() -> None:
    marks = ("FIX" + "ME", "XX" + "X", "TO" + "DO", "breakpoint" + "(")
    found = [
        f"{name_of(path)}:{number}"
        for path in [*EVERY_SOURCE, *sources_of_tests(), *sorted((ROOT / "tools").glob("*.py"))]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if any(mark in line for mark in marks)
    ]
    assert not found
