"""The command tree is data for ``--help-json``, documents and tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from oncelog_cli.command_table import COMMANDS, load
from oncelog_cli.exits import MEANINGS, UsageError
from oncelog_cli.render import JSON_VERSION


class Leaf(NamedTuple):
    """A leaf is one command that does something: ``path`` is what is typed after ``oncelog``."""

    path: str
    click: Any
    passes_through: bool = False
    """Whether its arguments belong to another program."""


def leaves() -> list[Leaf]:
    """Return all installed commands, those of groups included, in the order of the help.

    A group that does something by itself comes before what is in it.
    """
    found: list[Leaf] = []
    for entry in COMMANDS:
        try:
            command = load(entry)
        except UsageError:
            continue
        found += _within(entry.name, command, entry.passes_through)
    return found


def path_of(words: Sequence[str]) -> str:
    """Return the path of the command that a command line begins with: ``topics list``.

    :raises UsageError: there is no such command.
    """
    entry = next((each for each in COMMANDS if words and each.name == words[0]), None)
    if entry is None:
        raise UsageError(f"there is no command {' '.join(words[:1])!r}")
    path, command = [entry.name], load(entry)
    for word in words[1:]:
        command = (getattr(command, "commands", None) or {}).get(word)
        if command is None:
            break
        path.append(word)
    return " ".join(path)


def _within(path: str, command: Any, passes_through: bool) -> Iterator[Leaf]:
    children = getattr(command, "commands", None) or {}
    if not children or command.invoke_without_command:
        yield Leaf(path, command, passes_through)
    for name, child in children.items():
        yield from _within(f"{path} {name}", child, False)


def parameters(leaf: Leaf, kind: str) -> list[Any]:
    """Return a command's visible parameters; ``kind`` is "option" or "argument"."""
    return [
        item
        for item in leaf.click.params
        if item.param_type_name == kind and not getattr(item, "hidden", False)
    ]


def command_tree(root: Any) -> dict[str, Any]:
    """Return every command with its words, arguments and options, as JSON has them.

    :param root: the command of click that all others belong to.
    """
    return {
        "_command": "--help-json",
        "_version": JSON_VERSION,
        "name": "oncelog",
        "help": _words(root.help),
        "exit_codes": {str(code): meaning for code, meaning in MEANINGS.items()},
        "commands": [_described(leaf) for leaf in leaves()],
        "errors": [],
    }


def _described(leaf: Leaf) -> dict[str, Any]:
    return {
        "path": leaf.path.split(),
        "help": _words(leaf.click.help),
        "passes_through": leaf.passes_through,
        "arguments": [
            {
                "name": item.name,
                "metavar": item.metavar,
                "required": item.required,
                "repeatable": item.nargs == -1,
            }
            for item in parameters(leaf, "argument")
        ],
        "options": [
            {
                "name": item.name,
                "words": [*item.opts, *item.secondary_opts],
                "metavar": None if item.is_flag else item.metavar,
                "is_flag": bool(item.is_flag),
                "required": item.required,
                "repeatable": bool(item.multiple),
                "default": None if item.required else _default(item.default),
                "help": _words(item.help),
            }
            for item in parameters(leaf, "option")
        ],
    }


def _default(value: Any) -> Any:
    """Return a default as JSON has it; None where it is found out, or there is none."""
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, str | int | float | bool) else None


def _words(text: str | None) -> str:
    """Return paragraphs without the line breaks of the source."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))
