"""The JSON of each command has a schema, which ``--format help`` prints.

``output_schemas.json`` is made from what the commands print in the golden tests of the command
line, success and failure alike: a name of a JSON type (``integer or null``), a list that holds the
schema of its items, or an object. ``"*"`` as a key stands for names that are data. The name of
another command in place of a schema: the document is the same.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from oncelog_cli.exits import CommandError

SCHEMAS_FILE = "output_schemas.json"


def load_schemas() -> dict[str, Any]:
    """Return the schema of each document by command, as it is typed after ``oncelog``."""
    text = files("oncelog_cli").joinpath(SCHEMAS_FILE).read_text(encoding="utf-8")
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def schema_text(command: str) -> str:
    """Return the schema of one command's document, one field a line.

    :raises CommandError: it is not known.
    """
    schemas = load_schemas()
    schema = schemas.get(command)
    if isinstance(schema, str):
        schema = schemas.get(schema)
    if schema is None:
        raise CommandError(f"what 'oncelog {command}' prints as JSON is not written down")
    return "\n".join(_lines(schema, ""))


def _lines(schema: Any, indent: str) -> list[str]:
    lines: list[str] = []
    for name, item in schema.items():
        label = "(any name)" if name == "*" else name
        kind, inner = _kind(item)
        lines.append(f"{indent}{label}: {kind}")
        if inner is not None:
            lines += _lines(inner, indent + "  ")
    return lines


def _kind(schema: Any) -> tuple[str, dict[str, Any] | None]:
    """Return the words for a schema, and the object within it if there is one."""
    if isinstance(schema, str):
        return schema, None
    if isinstance(schema, dict):
        return "object", schema
    if not schema:
        return "list", None
    kind, inner = _kind(schema[0])
    return f"list of {kind}", inner
