"""A setting has one declaration with one default; every second literal default is found here.

Settings are declared in ``DECLARATIONS``: those of brokers, of topics and of clients. A default is
what a class body assigns to an annotated field, what a parameter has when it is not given, or what
a command line option has. It is *literal* when it is made of constants alone, also through
``Field(default=...)``; None says that nothing is given, and the name of a constant has its value
from one place. So a second default is a literal one

- of a field, parameter or option that is called like a setting, in a room that the setting is for;
- of a field that is handed a setting under another name, as in ``LogConfig(x=config.setting)``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.house_measures.statements import statements

BROKER = "broker/oncelog_broker/config/model.py"
TOPIC = "protocol/oncelog_protocol/topic_config.py"
CLIENT = "client/oncelog/config.py"

SERVERS = ("broker", "controller", "runtime", "testing", "cli")
CLIENTS = ("client", "cli", "console", "pipeline", "bench", "testing")

MACHINE = ("testing/oncelog_testing/memory", "testing/oncelog_testing/turns")
"""These are parts of a broker's world, in which no client has options."""

HANDED = ("broker/oncelog_broker/room_configs.py", "broker/oncelog_broker/controller_settings.py")
"""Here the broker's settings are handed to its rooms."""


_OPTION = re.compile(r"\b(option|add_argument)\b")


@dataclass(frozen=True, order=True)
class Default:
    """It is a place that writes a default."""

    path: str
    line: int
    owner: str
    """The class, the function or the command whose field, parameter or option it is."""
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name} of {self.owner}"


def measure(root: Path) -> list[Default]:
    """Return the second defaults in the checkout at ``root``, by path and line."""
    broker, client = _fields(root / BROKER, "BrokerConfig"), _fields(root / CLIENT, "Options")
    topic = _topic_settings(root / TOPIC)
    handed = {pair for path in HANDED for pair in _handed(root / path)}
    found: set[Default] = set()
    for rooms, names in ((SERVERS, broker | topic), (CLIENTS, client)):
        for path in _modules(root, rooms):
            name = str(path.relative_to(root))
            if name in (BROKER, TOPIC, CLIENT) or (rooms == CLIENTS and name.startswith(MACHINE)):
                continue
            for default in defaults(name, path.read_text(encoding="utf-8")):
                if default.name in names or (default.owner, default.name) in handed:
                    found.add(default)
    return sorted(found)


def defaults(path: str, text: str) -> Iterator[Default]:
    """Find every literal default in a module."""
    tree = ast.parse(text, filename=path)
    # Options are calls, which stand in expressions; few modules have any.
    for node in ast.walk(tree) if _OPTION.search(text) else statements(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and is_literal(line.value):
                    assert isinstance(line.target, ast.Name)
                    yield Default(path, line.lineno, node.name, line.target.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument, value in _parameters(node.args):
                if is_literal(value):
                    yield Default(path, argument.lineno, node.name, argument.arg)
        elif isinstance(node, ast.Call):
            option = _option(node)
            given = {each.arg: each.value for each in node.keywords}
            if option and is_literal(given.get("default")):
                yield Default(path, node.lineno, f"--{option.replace('_', '-')}", option)


def is_literal(value: ast.expr | None) -> bool:
    """Return whether a default is made of constants alone, and is not None."""
    if isinstance(value, ast.Constant):
        return value.value is not None
    if isinstance(value, ast.UnaryOp):
        return is_literal(value.operand)
    if isinstance(value, ast.BinOp):
        return is_literal(value.left) or is_literal(value.right)
    if isinstance(value, ast.Tuple | ast.List):
        return bool(value.elts) and all(map(is_literal, value.elts))
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        given = {each.arg: each.value for each in value.keywords}
        return value.func.id in ("Field", "field") and is_literal(given.get("default"))
    return False


def _option(call: ast.Call) -> str:
    """Return the name of the command line option that a call declares, or "" for any other."""
    if not isinstance(call.func, ast.Name | ast.Attribute) or not call.args:
        return ""
    function = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
    if function not in ("option", "add_argument"):
        return ""
    for each in call.args:
        if isinstance(each, ast.Constant) and str(each.value).startswith("--"):
            return str(each.value)[2:].partition("/")[0].replace("-", "_")
    return ""


def _parameters(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    named = [*arguments.posonlyargs, *arguments.args]
    first = len(named) - len(arguments.defaults)
    yield from zip(named[first:], arguments.defaults, strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _fields(path: Path, classes: str) -> set[str]:
    """Return the names of the fields with a default in the classes that end with ``classes``."""
    return {
        line.target.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith(classes)
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        if _has_default(line.value)
    }


def _has_default(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Constant):
        return value.value is not None
    if isinstance(value, ast.Call):
        return any(each.arg in ("default", "default_factory") for each in value.keywords)
    return value is not None


def _topic_settings(path: Path) -> set[str]:
    """Return the names in the table of topic settings: what each call of ``_row`` begins with."""
    found = {
        str(node.args[0].value)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id == "_row" and node.args and isinstance(node.args[0], ast.Constant)
    }
    if not found:
        raise LookupError(f"{path} has no table of settings")
    return found


def _handed(path: Path) -> set[tuple[str, str]]:
    """Return (class, field) of what is handed a setting of the broker."""
    return {
        (node.func.id, each.arg)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        for each in node.keywords
        if each.arg and any(_is_setting(inner) for inner in ast.walk(each.value))
    }


def _is_setting(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "config"
    )


def _modules(root: Path, rooms: tuple[str, ...]) -> list[Path]:
    return [path for room in rooms for path in sorted((root / room).rglob("*.py"))]
