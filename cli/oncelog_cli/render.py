"""What commands print: tables for people, JSON for programs, errors on stderr.

Contract: standard output of ``--json`` is always one valid JSON document with ``_command`` and
``_version``, also when the command failed as a whole; errors go to standard error, one line each,
and into ``errors``; the exit code is 0 when all went well, 1 when any item failed, 2 for a wrong
command line (then nothing may be on standard output). Colours and boxes only on a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import typer

from oncelog_cli.options import Format

JSON_VERSION = 1
"""Grows when a field changes its meaning or goes; new fields may come without."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, the row's key, and when and how it shows."""

    heading: str
    key: str
    wide: bool = False
    """Only with ``--format wide``."""
    right: bool = False
    show: Callable[[Any], str] | None = None


@dataclass(slots=True)
class Output:
    """What one run of a command has to say."""

    command: str
    format: Format
    errors: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        CURRENT.set(self)

    @property
    def is_json(self) -> bool:
        """Whether a program reads along."""
        return self.format is Format.JSON

    def fail(self, item: str, error: BaseException | str) -> None:
        """One item failed; the command goes on with the others and exits with 1."""
        message = str(error) or type(error).__name__
        self.errors.append({"item": item, **error_entry(error)})
        named = not item or item in message
        print(f"error: {message}" if named else f"error: {item}: {message}", file=sys.stderr)

    def table(self, columns: Sequence[Column], rows: Iterable[Row], *, title: str = "") -> None:
        """A table, unless the format is JSON."""
        if self.is_json:
            return
        shown = [c for c in columns if self.format is Format.WIDE or not c.wide]
        cells = [[_cell(column, row) for column in shown] for row in rows]
        if title:
            print(title)
        if sys.stdout.isatty() and _print_rich(shown, cells):
            return
        _print_plain(shown, cells)

    def line(self, text: str = "") -> None:
        """A line of text, unless the format is JSON."""
        if not self.is_json:
            print(text)

    def note(self, text: str) -> None:
        """A remark for a person, on stderr: never in the way of a pipe."""
        if not self.is_json:
            print(text, file=sys.stderr)

    def finish(self, payload: Mapping[str, Any]) -> None:
        """Print the JSON document, if that is the format; exit with 1 when something failed."""
        if self.is_json:
            document = {"_command": self.command, "_version": JSON_VERSION, **payload}
            document["errors"] = self.errors
            print(json.dumps(document, ensure_ascii=False, indent=2, default=str))
        if self.errors:
            raise typer.Exit(1)

    def abort(self, error: BaseException) -> None:
        """The command failed as a whole: its document holds nothing but errors."""
        if self.is_json:
            errors = [*self.errors, {"item": "", **error_entry(error)}]
            document = {"_command": self.command, "_version": JSON_VERSION, "errors": errors}
            print(json.dumps(document, ensure_ascii=False, indent=2, default=str))


CURRENT: ContextVar[Output | None] = ContextVar("CURRENT", default=None)
"""What the running command prints to, so that an error that ends it can reach its document."""


def error_entry(error: BaseException | str) -> dict[str, Any]:
    """An error in a document: ``error`` is a name to decide by, ``message`` is for people."""
    if isinstance(error, str):
        return {"error": "FAILED", "message": error}
    name = getattr(error, "name", None)
    entry: dict[str, Any] = {
        "error": name if isinstance(name, str) and name else type(error).__name__,
        "message": str(error) or type(error).__name__,
    }
    definite = getattr(error, "definite", None)
    if isinstance(definite, bool):
        entry["definite"] = definite
    return entry


def report(error: BaseException) -> None:
    """Say why a command ended: a line on stderr, and the document of a command with ``--json``."""
    print(f"error: {str(error) or type(error).__name__}", file=sys.stderr)
    output = CURRENT.get()
    if output is not None:
        output.abort(error)


def _cell(column: Column, row: Row) -> str:
    value = row.get(column.key)
    if column.show is not None:
        return column.show(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value) or "-"
    return str(value)


def _print_plain(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    widths = [
        max([len(column.heading), *(len(row[index]) for row in cells)])
        for index, column in enumerate(columns)
    ]
    lines = [[column.heading for column in columns], *cells]
    for line in lines:
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ]
        print("  ".join(parts).rstrip())


def _print_rich(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> bool:
    """On a terminal; False when rich is not installed."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(
            column.heading, justify="right" if column.right else "left", overflow="fold"
        )
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    Console(highlight=False).print(table)
    return True


def human_bytes(value: Any) -> str:
    """1536 -> "1.5 KiB"."""
    if not isinstance(value, int | float) or value < 0:
        return "-"
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def human_time(timestamp_ms: Any) -> str:
    """Milliseconds since 1970 as a date; a dash for none."""
    if not isinstance(timestamp_ms, int) or timestamp_ms < 0:
        return "-"
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
