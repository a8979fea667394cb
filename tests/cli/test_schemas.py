"""Schemas of documents: read, shown one field a line, and made from documents for the tests."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_cli import schemas
from oncelog_cli.exits import CommandError
from oncelog_cli.main import run_command
from oncelog_cli.schemas import schema_text
from support.golden import infer, merge


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
