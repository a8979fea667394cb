"""``oncelog cheat``: every example is a command line that can be parsed."""

from __future__ import annotations

import re
import shlex

import pytest

from oncelog_cli import typed
from oncelog_cli.command_tree import leaves
from oncelog_cli.commands.cheat import SHEETS
from support.shell import oncelog

LEAVES = {leaf.path: leaf for leaf in leaves()}
EXAMPLES = [
    part
    for sheet in SHEETS.values()
    for _, line in sheet
    for part in re.split(r" \| ", line)
    if part.startswith("oncelog ")
]


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_can_be_parsed(line: str) -> None:
    words = shlex.split(line.replace("$'", "'"))[1:]
    path = next((p for n in (3, 2, 1) if (p := " ".join(words[:n])) in LEAVES), None)
    assert path is not None, f"{line}: no such command"
    arguments = words[len(path.split()) :]
    command = LEAVES[path].click
    parser = command.make_parser(typed.Context(command, info_name=path))
    _, rest, _ = parser.parse_args(list(arguments))  # raises what a shell would be told
    assert not rest


async def test_sheets() -> None:
    shown = await oncelog("cheat", "groups")
    assert shown.code == 0
    assert shown.out.startswith("# groups\n")
    shown = await oncelog("cheat")
    assert all(f"# {name}\n" in shown.out for name in SHEETS)
    shown = await oncelog("cheat", "nonsense")
    assert (shown.code, shown.out) == (2, "")
