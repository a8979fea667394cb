"""The measure finds what code cites of docs/rules.toml, and what it cites that is not there.

A rule is cited as ``[K5]`` in a comment or a docstring, or by a string that is its number and
nothing else, as in ``Violation("A3", ...)``. Its number without the brackets is the old form.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

DATA = "docs/rules.toml"
FOLDERS = (
    "protocol", "runtime", "broker", "controller", "client", "cli", "console", "bench", "pipeline",
    "testing",
    "tests", "tools",
)  # fmt: skip

_ABSENT = re.compile(r"\bRELIABILITY\b|\b[Aa]blation \d+\b|\bF\d{1,2}\b|\b8\.\d/\d+\b")
"""References to a document that is not in the repository."""


@dataclass(frozen=True, slots=True)
class Section:
    """The rules of a section have numbers that begin with the same letter."""

    letter: str
    title: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule is one row of the data file."""

    id: str
    rule: str
    source: str
    where: str
    proof: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation is one place that cites a rule, or seems to."""

    path: str
    line: int
    id: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.id}"


@dataclass(frozen=True, slots=True)
class Citations:
    """Some modules have these citations."""

    known: tuple[Citation, ...]
    unknown: tuple[Citation, ...]
    """In the form of a citation, and there is no such rule."""
    old: tuple[Citation, ...]
    """Without the brackets, or of a document that is not here."""


def load(root: Path) -> tuple[list[Section], list[Rule]]:
    """Return the sections and rules of the checkout at ``root``."""
    data = tomllib.loads((root / DATA).read_text(encoding="utf-8"))
    rules = [
        Rule(
            row["id"], row["rule"], row["source"], row["where"],
            tuple(row.get("proof", ())), tuple(row.get("switches", ())), row.get("group", ""),
        )
        for row in data["rule"]
    ]  # fmt: skip
    return [Section(**row) for row in data["section"]], rules


def modules(root: Path) -> list[Path]:
    """Return every module of the checkout in which rules are cited."""
    return [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]


def citations(root: Path, paths: Iterable[Path], rules: Iterable[Rule]) -> Citations:
    """Return what the modules at ``paths`` cite."""
    ids = {rule.id for rule in rules}
    letters = "".join(sorted({id[0] for id in ids}))
    cited = re.compile(rf"\[([{letters}]\d{{1,3}})\]")
    bare = re.compile(rf"(?<![\w\[./\"'-])([{letters}]\d{{1,3}})(?![\w\]/])")
    might = re.compile(rf"\b[{letters}]\d{{1,3}}\b|{_ABSENT.pattern}")
    known: list[Citation] = []
    unknown: list[Citation] = []
    old: list[Citation] = []
    for path in paths:
        name = str(path.relative_to(root))
        source = path.read_text(encoding="utf-8")
        if might.search(source) is None:
            continue  # most cite nothing, and parsing takes its time
        tree = ast.parse(source, filename=name)
        for line, text in (*_docstrings(tree), *_comments(source)):
            for id in cited.findall(text):
                (known if id in ids else unknown).append(Citation(name, line, id))
            found = [id for id in bare.findall(text) if id in ids]
            found += [match.group() for match in _ABSENT.finditer(text)]
            old += [Citation(name, line, what) for what in found]
        known += [
            Citation(name, node.lineno, str(node.value))
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in ids
        ]
    return Citations(tuple(known), tuple(unknown), tuple(old))


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines of every string that stands alone, with their numbers."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from enumerate(node.value.value.splitlines(), node.lineno)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
