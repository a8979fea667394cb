"""Schemas are text in Spark's DDL; mistakes in them are told here in the user's own words. Pure.

Spark says of a schema that it cannot read what it has read until then, which is the schema of all
columns of a source: nobody has written that. So it is looked at here first.

Rules
-----
* The grammar is that of the types: fields with or without a colon, comments, names in backquotes.
* A mistake names the option, and points into its text.
* Which types JSON is read as is the caller's to say; the list here is of all that Spark has.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from pyspark_oncelog.option_values import OptionError

JSON_TYPES = frozenset(
    {
        "boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long",
        "float", "real", "double", "string", "binary", "date", "timestamp", "timestamp_ltz",
        "timestamp_ntz", "decimal", "dec", "numeric",
    }
)  # fmt: skip
"""Names of types that JSON is read as; structs, arrays and maps beside them."""
ALL_TYPES = JSON_TYPES | {"char", "character", "varchar", "interval", "variant", "void", "time"}

NESTED = re.compile(r"(?:struct|array|map)\s*<", re.IGNORECASE)
TOKEN = re.compile(r"\s*(?:(?P<word>\w+)|(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'[^']*'|\"[^\"]*\")|"
                   r"(?P<mark>[<>(),:]))", re.ASCII)  # fmt: skip
INTERVAL = re.compile(r"\s+(?:year|month|day|hour|minute|second)(?:\s+to\s+\w+)?", re.IGNORECASE)


def is_whole_type(text: str) -> bool:
    """Return whether a schema is one type, and no list of fields."""
    return NESTED.match(text.strip()) is not None


def check_ddl(option: str, text: str) -> None:
    """Look at a schema of any source.

    :param option: that has given it.
    :raises OptionError: it is none, with a mark under the place.
    """
    _DdlReading(option, text, ALL_TYPES).all()


def check_json_ddl(option: str, text: str) -> None:
    """Look at a schema of JSON documents.

    :raises OptionError: it is none, or has what JSON cannot be.
    """
    _DdlReading(option, text, JSON_TYPES).all()


class _DdlReading:
    def __init__(self, option: str, text: str, types: Collection[str]) -> None:
        self._option = option
        self._text = text
        self._types = types
        self._at = 0
        self._begin = 0

    def all(self) -> None:
        if is_whole_type(self._text):
            self._type()
        else:
            self._fields()
        if self._rest():
            self._refuse("this is not expected here", self._next_at())

    def _fields(self) -> None:
        while True:
            kind, _ = self._take()
            if kind not in ("word", "quoted"):
                self._refuse("the name of a field is expected here; odd ones go in `backquotes`")
            self._skip(":")
            self._type()
            while (word := self._peek().lower()) in ("not", "comment"):
                self._take()
                if word == "not":
                    self._not_null()
                if word == "comment" and self._take()[0] != "text":
                    self._refuse("a comment is expected here, in quotes")
            if not self._skip(","):
                return

    def _not_null(self) -> None:
        begin = self._begin
        if self._take()[1].lower() != "null":
            self._refuse("NULL is expected behind NOT")
        if self._types is JSON_TYPES:
            self._refuse(
                "NOT NULL cannot be promised: what a record lacks, or what does not fit, is NULL."
                " Leave it out, and filter",
                begin,
            )

    def _type(self) -> None:
        kind, name = self._take()
        lowered = name.lower()
        if kind != "word":
            self._refuse("a type is expected here")
        if lowered in ("struct", "array", "map"):
            self._parts(lowered)
        elif lowered not in self._types:
            known = lowered in ALL_TYPES
            why = "is not read from JSON: read STRING, and convert it" if known else "is no type"
            self._refuse(f"{name.upper()} {why}")
        elif lowered == "interval" and (found := INTERVAL.match(self._text, self._at)):
            self._at = found.end()
        elif self._skip("("):
            while True:
                if not self._take()[1].isdecimal():
                    self._refuse("a number is expected here")
                if not self._skip(","):
                    break
            self._need(")")

    def _parts(self, name: str) -> None:
        self._need("<")
        if name == "struct":
            if self._peek() != ">":
                self._fields()
        else:
            self._type()
            if name == "map":
                self._need(",")
                self._type()
        self._need(">")

    # ------------------------------------------------------------------------------ tokens

    def _rest(self) -> str:
        return self._text[self._at :].strip()

    def _next_at(self) -> int:
        return len(self._text) - len(self._text[self._at :].lstrip())

    def _take(self) -> tuple[str, str]:
        """Return kind and text of what comes next; both are empty at the end."""
        self._begin = self._next_at()
        found = TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            if self._rest():
                self._refuse("this cannot be in a schema, but for a name in `backquotes`")
            return "", ""
        self._at = found.end()
        return found.lastgroup, found[found.lastgroup]

    def _peek(self) -> str:
        found = TOKEN.match(self._text, self._at)
        return "" if found is None else found[0].strip()

    def _skip(self, mark: str) -> bool:
        if self._peek() != mark:
            return False
        self._take()
        return True

    def _need(self, mark: str) -> None:
        if not self._skip(mark):
            self._refuse(f"{mark} is expected here", self._next_at())

    def _refuse(self, why: str, at: int | None = None) -> None:
        place = self._begin if at is None else at
        line_begin = self._text.rfind("\n", 0, place) + 1
        line = self._text[line_begin:].partition("\n")[0]
        raise OptionError(f"{self._option}: {why}\n  {line}\n  {' ' * (place - line_begin)}^")
