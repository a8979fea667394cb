"""Output is made here: tables for people, documents and columns for programs, errors on stderr.

Contract: standard output of ``--json`` (or ``--format yaml``) is always one valid document with
``_command`` and ``_version``, also when the command failed as a whole or its command line is wrong;
errors go to standard error, one line each, and into ``errors``. ``--format tsv`` has no headings,
the same columns whatever there is, and raw values: a dash for none, ``\\t``, ``\\n`` and ``\\\\``
within text. The exit code is 0 when all went well, 1 when any item failed, 2 for a wrong command
line, 10 when the command ran and what it looked at is not healthy. Colours and boxes only on a
terminal. Commands that print records, or what another program says, print lines instead: they have
no ``--format yaml``.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from oncelog_cli import typed
from oncelog_cli.documents.answer import Answer, Document, Failure
from oncelog_cli.exits import EXIT_FAILED
from oncelog_cli.options import Format

JSON_VERSION = 1
"""The version grows when a field changes its meaning or goes; new fields may come without."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column has a heading and the row's key, and says when and how it shows."""

    heading: str
    key: str
    wide: bool = False
    """The column is shown only with ``--format wide``."""
    right: bool = False
    show: Callable[[Any], str] | None = None


PARTITION_NAME = (Column("TOPIC", "topic"), Column("PARTITION", "partition", right=True))
"""A table of partitions begins with these columns."""


@dataclass(slots=True)
class Output:
    """The output is all that one run of a command has to say."""

    command: str
    format: Format
    errors: list[dict[str, Any]] = field(default_factory=list)
    tables: int = 0
    """How many were given to print."""
    finished: bool = False
    """Whether the document is printed: there is only one."""

    def __post_init__(self) -> None:
        CURRENT.set(self)

    @property
    def is_json(self) -> bool:
        """Return whether one document is printed, and nothing else: JSON, or the same as YAML."""
        return self.format.is_document

    @property
    def is_for_people(self) -> bool:
        """Return whether words are printed: no program reads along."""
        return self.format in (Format.TABLE, Format.WIDE)

    def widen(self) -> None:
        """Show people every column from now on."""
        if self.is_for_people:
            self.format = Format.WIDE

    def fail(self, item: str, error: BaseException | str) -> None:
        """One item failed; the command goes on with the others and exits with 1."""
        failure = Failure(item, error)
        self.errors.append(failure.entry())
        named = not item or item in failure.message
        told = failure.message if named else f"{item}: {failure.message}"
        print(f"error: {told}", file=sys.stderr)

    def fail_each(self, failures: Iterable[Failure]) -> None:
        """Several items failed."""
        for failure in failures:
            self.fail(failure.item, failure.error)

    def document_of(self, answer: Answer) -> Document:
        """Return the document of an answer, with its notes and failures told."""
        for note in answer.notes:
            self.note(note)
        self.fail_each(answer.failures)
        return answer.document

    def tell(self, did: str, items: Iterable[object]) -> None:
        """Print for people a line for each item, with what was done with it or would be."""
        for item in items:
            self.line(f"{did} {item}")

    def table(
        self,
        columns: Sequence[Column],
        rows: Iterable[Row],
        *,
        title: str = "",
        under: Row | None = None,
        detail: bool = False,
    ) -> None:
        """Print a table, unless the format is a document.

        :param under: what the rows belong to, as a title says it: the first columns of TSV.
        :param detail: a table of another kind than the command's own; TSV goes without.
        """
        self.tables += 1
        if self.is_json:
            return
        if self.format is Format.TSV:
            if not detail:
                _print_tsv([Column(key, key) for key in under or ()], columns, under or {}, rows)
            return
        shown = [c for c in columns if self.format is Format.WIDE or not c.wide]
        cells = [[_cell(column, row) for column in shown] for row in rows]
        if title:
            print(title)
        if sys.stdout.isatty() and _print_rich(shown, cells):
            return
        _print_plain(shown, cells)

    def line(self, text: str = "") -> None:
        """Print a line of text for people."""
        if self.is_for_people:
            print(text)

    def note(self, text: str) -> None:
        """Write a remark for a person to stderr, where it is never in the way of a pipe."""
        if self.is_for_people:
            print(text, file=sys.stderr)

    def show(self, columns: Sequence[Column], payload: Mapping[str, Any]) -> None:
        """Print a document's first list as a table, and finish."""
        self.table(columns, _rows_of(payload))
        self.finish(payload)

    def finish(
        self,
        payload: Mapping[str, Any],
        columns: Sequence[Column] = (),
        rows: Iterable[Row] | None = None,
    ) -> None:
        """Print the document, if that is the format; exit with 1 when something failed.

        :param columns: of a command that shows people no table, for TSV. Its ``rows`` are the first
            list of the payload, or the payload itself if it has none.
        """
        if self.is_json:
            self._print_document(payload, self.errors)
        elif self.format is Format.TSV and not self.tables:
            held = list(_rows_of(payload) if rows is None else rows)
            _print_tsv([], columns or [Column(key, key) for key in next(iter(held), {})], {}, held)
        if self.errors:
            raise typed.Exit(EXIT_FAILED)

    def abort(self, error: BaseException) -> None:
        """The command failed as a whole: its document holds nothing but errors."""
        if self.is_json and not self.finished:
            self._print_document({}, [*self.errors, Failure("", error).entry()])

    def _print_document(self, payload: Mapping[str, Any], errors: Sequence[Any]) -> None:
        document = enveloped(self.command, payload, errors)
        self.finished = True
        text = json.dumps(document, ensure_ascii=False, indent=2, default=str)
        if self.format is Format.YAML:
            from oncelog_cli.yaml_text import to_yaml

            # Through JSON, so that what neither can say becomes the same text in both.
            text = to_yaml(json.loads(text))
        print(text)


def enveloped(command: str, payload: Mapping[str, Any], errors: Sequence[Any]) -> dict[str, Any]:
    """Return the document that a command prints: what it has to say, and what says whose it is.

    :param errors: what failed, as :meth:`Failure.entry` has it.
    """
    return {"_command": command, "_version": JSON_VERSION, **payload, "errors": errors}


CURRENT: ContextVar[Output | None] = ContextVar("CURRENT", default=None)
"""The output of the running command, so that an error that ends it can reach its document."""


def report(error: BaseException) -> None:
    """Say why a command ended: a line on stderr, and the document of a command with ``--json``."""
    print(f"error: {Failure('', error).message}", file=sys.stderr)
    tell_document(error)


def tell_document(error: BaseException) -> None:
    """Say it in the document of the running command, if it prints one and has not yet."""
    output = CURRENT.get()
    if output is not None:
        output.abort(error)


REQUESTED: ContextVar[Sequence[str]] = ContextVar("REQUESTED", default=())
"""The command line as it was typed."""


def requested_output(context: typed.Context) -> None:
    """Make the output of a command that ended before it could: its command line is wrong, and which
    format it asks for has to be seen from the words themselves."""
    command: Any = context.command
    prints_one = hasattr(command, "commands") or any(
        parameter.name == "output_format" for parameter in command.params
    )
    words = list(REQUESTED.get())
    words = words[: words.index("--")] if "--" in words else words
    chosen = "json" if "--json" in words else ""
    for word, value in itertools.pairwise([*words, ""]):
        name, equals, attached = word.partition("=")
        if name == "--format" or word == "-f":
            chosen = chosen or (attached if equals else value)
        elif word.startswith("-f"):
            chosen = chosen or word[2:]
    if CURRENT.get() is None and prints_one and chosen in ("json", "yaml"):
        Output(context.command_path.partition(" ")[2], Format(chosen))


def _rows_of(payload: Mapping[str, Any]) -> Sequence[Row]:
    """Return the first list of a document, or the document itself if it has none."""
    return next((item for item in payload.values() if isinstance(item, list)), [payload])


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


def _print_tsv(
    first: Sequence[Column], columns: Sequence[Column], under: Row, rows: Iterable[Row]
) -> None:
    for row in rows:
        whole = {**row, **under}
        print("\t".join(_raw(whole.get(column.key)) for column in (*first, *columns)))


def _raw(value: Any) -> str:
    """Return a value as it stands in a column of TSV."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple) and not any(isinstance(v, Mapping | list) for v in value):
        value = ",".join(str(item) for item in value)
    elif isinstance(value, Mapping | list | tuple):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    text = str(value).replace("\\", "\\\\")
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r") or "-"


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
    """Print on a terminal; return False when rich is not installed."""
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


def counted(number: int, noun: str) -> str:
    """Return ``1 record``, ``2 records``, ``1,000 records``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def partition_text(row: Row) -> str:
    """Return ``topic-0`` for a row of a partition."""
    return f"{row['topic']}-{row['partition']}"


def human_bytes(value: Any) -> str:
    """Return bytes as people write them: 1536 becomes "1.5 KiB"."""
    if not isinstance(value, int | float) or value < 0:
        return "-"
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def human_time(timestamp_ms: Any) -> str:
    """Return milliseconds since 1970 as a date; return a dash for None."""
    if not isinstance(timestamp_ms, int) or timestamp_ms < 0:
        return "-"
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def human_seconds(value: Any) -> str:
    """Return seconds as people say them: 1080 becomes "18 min"; a dash for None."""
    if not isinstance(value, int | float) or value < 0:
        return "-"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value >= 2 * seconds:
            return f"{value / seconds:.0f} {unit}"
    return f"{value:.0f} s"


def address_text(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets: the client's own is loaded slowly."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
