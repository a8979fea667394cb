"""Commands are tables: map, tree, and schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog_cli import schemas
from oncelog_cli.command_table import COMMANDS, LazyCommand, load
from oncelog_cli.command_tree import leaves
from oncelog_cli.exits import MEANINGS, CommandError, UsageError
from oncelog_cli.main import run_command
from oncelog_cli.schemas import schema_text
from support.golden import infer, merge
from support.house import ROOT

# ---- command_map.py: docs/command-map.md: every command and option that it names exists, and
# every group is in it


PAGE = ROOT / "docs" / "command-map.md"
LEAVES = {leaf.path: leaf for leaf in leaves()}
OF_ALL = {"--bootstrap", "--format", "--json", "--profile", "--help", "-X"}
OF_THE_ROOT = {"--help-json", "--version", "--help"}


def named() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the right-hand column with the options that follow it in its cell."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        texts = cells[-1:] if line.startswith("|") else [line]
        for text in texts:
            current: tuple[str, list[str]] | None = None
            for code in re.findall(r"`([^`]+)`", text):
                words = code.split()
                if words[0] == "oncelog":
                    if current is not None:
                        yield current
                    options = [word for word in words if word.startswith("-")]
                    current = (" ".join(w for w in words[1:] if not w.startswith("-")), options)
                elif words[0].startswith("--") and current is not None:
                    current[1].extend(word for word in words if word.startswith("--"))
            if current is not None:
                yield current


NAMED = list(named())


@pytest.mark.parametrize(("path", "options"), NAMED, ids=lambda value: str(value))
def test_it_exists(path: str, options: list[str]) -> None:
    if not path:
        assert set(options) <= OF_THE_ROOT
        return
    assert path in LEAVES, f"'oncelog {path}' is not a command"
    known = {
        option
        for parameter in LEAVES[path].click.params
        for option in (*getattr(parameter, "opts", ()), *getattr(parameter, "secondary_opts", ()))
    }
    missing = set(options) - known - OF_ALL
    assert not missing, f"'oncelog {path}' has no {missing}"


def test_every_command_of_others_tools_is_answered() -> None:
    """No row without an answer, and every command that has a counterpart is named."""
    ours = {"pipeline demo", "pipeline run", "pipeline check", "demo", "console"}
    ours |= {path for path in LEAVES if path.startswith(("shared ", "profile ", "broker"))}
    assert set(LEAVES) - ours <= {path for path, _ in NAMED}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("| ---", "| elsewhere")):
            there, _, here = line.strip("| ").partition(" | ")
            assert there, line
            assert here, line


# ---- command_table.py: the table of commands is quiet about what is not installed


def test_a_command_that_is_not_installed_harms_no_other() -> None:
    missing = LazyCommand("later", "not_there:later", "")
    with pytest.raises(UsageError, match="oncelog later"):
        load(missing)


def test_a_defect_inside_a_command_is_not_called_missing() -> None:
    with pytest.raises(AttributeError):
        load(LazyCommand("broken", "processes:not_there", ""))


# ---- command_tree.py: the command tree as data


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


# ---- schemas.py: schemas of documents: read, shown one field a line, and made from documents for
# the tests


def test_a_schema_is_one_line_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "x": {"_command": "string", "rows": [{"a": "integer or null", "b": ["string"]}], "c": []},
        "y": "x",
        "z": {"by_name": {"*": {"port": "integer"}}},
    }
    monkeypatch.setattr(schemas, "load_schemas", lambda: known)
    assert schema_text("x").splitlines() == [
        "_command: string",
        "rows: list of object",
        "  a: integer or null",
        "  b: list of string",
        "c: list",
    ]
    assert schema_text("y") == schema_text("x")
    assert schema_text("z").splitlines()[1:] == ["  (any name): object", "    port: integer"]
    with pytest.raises(CommandError, match="oncelog w"):
        schema_text("w")


def test_help_comes_before_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody has to name a topic to learn what is said of one."""
    assert run_command(["topics", "describe", "--format", "help"]) == 0
    shown = capsys.readouterr().out
    assert "topics: list of object\n  topic: string\n" in shown
    assert "  partitions: list of object\n    partition: integer\n" in shown


@pytest.mark.parametrize(
    ("documents", "schema"),
    [
        ([{"a": 1}, {"a": None}], {"a": "integer or null"}),
        ([{"a": None}, {"a": 1}, {"a": 0.5}], {"a": "integer or number or null"}),
        ([{"a": []}, {"a": [1, "x"]}], {"a": ["integer or string"]}),
        ([{"a": [{"b": 1}, {"c": True}]}], {"a": [{"b": "integer", "c": "boolean"}]}),
        ([{"a": None}, {"a": {"b": 1}}], {"a": {"b": "integer"}}),
        ([{"m": {"x": {"p": 1}, "y": {"p": None}}}], {"m": {"*": {"p": "integer or null"}}}),
    ],
)
def test_schemas_are_made_from_documents(documents: list[Any], schema: Any) -> None:
    found = infer(documents[0], ["m"])
    for document in documents[1:]:
        found = merge(found, infer(document, ["m"]))
    assert found == schema
