"""The command tree as data."""

from __future__ import annotations

import json

import pytest

from oncelog_cli.command_table import COMMANDS
from oncelog_cli.command_tree import leaves
from oncelog_cli.exits import MEANINGS
from oncelog_cli.main import run_command


def test_help_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--help-json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document)[:2] == ["_command", "_version"]
    assert document["exit_codes"] == {str(code): text for code, text in MEANINGS.items()}
    commands = {" ".join(command["path"]): command for command in document["commands"]}
    assert list(commands) == [leaf.path for leaf in leaves()]
    create = commands["topics create"]
    assert create["help"].startswith("Create topics; ")
    assert create["arguments"] == [
        {"name": "topics", "metavar": "TOPIC...", "required": True, "repeatable": True}
    ]
    options = {option["name"]: option for option in create["options"]}
    assert options["partitions"] == {
        "name": "partitions",
        "words": ["--partitions", "-p"],
        "metavar": "N",
        "is_flag": False,
        "required": False,
        "repeatable": False,
        "default": -1,
        "help": "-1: the broker's default.",
    }
    assert options["dry_run"]["is_flag"]
    assert options["output_format"]["default"] == "table"
    assert options["client_options"]["words"] == ["-X"]
    assert commands["bench"]["passes_through"]


def test_every_line_of_the_table_has_leaves() -> None:
    paths = [leaf.path for leaf in leaves()]
    assert len(set(paths)) == len(paths)
    assert {path.split()[0] for path in paths} == {command.name for command in COMMANDS}


def test_a_group_that_does_something_by_itself_is_one_of_them() -> None:
    paths = [leaf.path for leaf in leaves()]
    assert paths.index("broker") < paths.index("broker config show")
    assert "topics" not in paths
