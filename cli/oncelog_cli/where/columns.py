"""Records that a filter expression finds are found by columns: whole batches, not record by record.

Rules
-----
* Conditions on text are first asked of all values of a batch joined together: a batch without the
  text costs one search.
* JSON is decoded only where the bytes hold what the condition needs: its text, or the name of a
  member. JSON may spell the same otherwise, with ``\\u``: bytes that hold ``\\u`` are decoded.
* Of conditions that must all hold the cheapest is asked first, the others only of what is left.
* Nothing is kept from one batch to the next. Pure.
"""

from __future__ import annotations

import operator as python_operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncelog_cli.where.pattern import compile_pattern
from oncelog_cli.where.tree import (
    NUMBERS,
    AllOf,
    AnyOf,
    Compare,
    Field,
    IsMissing,
    IsNull,
    Literal,
    Matches,
    Not,
    OneOf,
    Operator,
    Part,
    Tree,
    fields_of,
)
from oncelog_cli.where.values import (
    MISSING,
    as_bytes,
    as_utf8,
    at_path,
    comparison_of,
    json_of,
    path_reader,
)

if TYPE_CHECKING:
    from oncelog import ColumnBatch

Finder = Callable[["ColumnBatch"], list[int]]
Rows = Sequence[int]
"""Indices of records in a batch, in order."""

_Select = Callable[["_Columns", Rows], list[int]]
_Values = Callable[["_Columns", int], Sequence[Any]]
"""They stand in a field of one record: one thing, or as many as there are headers of a name."""

_ESCAPE = b"\\u"
_UNSAFE = re.compile(r'["\\/\x00-\x1f\ud800-\udfff]')
"""JSON may, or must, spell these with a backslash that is not ``\\u``."""


def finder_of(tree: Tree) -> Finder:
    """Return the function that gives the indices of those records of a batch that a tree finds."""
    select, _ = _compiled(tree)
    keeps_documents = sum(1 for each in fields_of(tree) if each.path) > 1

    def find(batch: ColumnBatch) -> list[int]:
        return select(_Columns(batch, keeps_documents), range(len(batch)))

    return find


# ------------------------------------------------------------------------------ a batch


BETWEEN = b"\n"
"""It stands between the values of a column that are joined."""
SELDOM = 16
"""A text that is in more than one record of so many is looked for record by record."""


@dataclass(slots=True)
class _Joined:
    """All bytes of a column are one text, which is searched once for the whole batch."""

    column: Sequence[bytes | None]
    text: bytes
    _escapes: bool | None = None

    @property
    def escapes(self) -> bool:
        """Return whether ``\\u`` is somewhere in it."""
        if self._escapes is None:
            # One byte is found many times as fast as two, and most batches have none.
            self._escapes = b"\\" in self.text and _ESCAPE in self.text
        return self._escapes

    @property
    def is_countable(self) -> bool:
        """Return whether ``BETWEEN`` is in none of the values: then counting it says which record
        a place belongs to."""
        return self.text.count(BETWEEN) == len(self.column) - 1

    def rows_with(self, needle: _Needle) -> list[int]:
        """Return the indices of the values that hold the needle."""
        found, row = self._first_rows(needle)
        return found + needle.rows(range(row, len(self.column)), self.column)

    def rows_to_read(self, needle: _Needle) -> Rows:
        """Return the indices of the values that hold the needle, and maybe of some that do not.

        Where nearly all hold it, looking for it costs more than it saves.
        """
        found, row = self._first_rows(needle)
        rest = range(row, len(self.column))
        if found and len(found) * 4 >= row * 3:
            return [*found, *rest]
        return found + needle.rows(rest, self.column)

    def _first_rows(self, needle: _Needle) -> tuple[list[int], int]:
        """Return indices of values that hold the needle, and the index of the first value that was
        not looked at, because looking from value to value is quicker."""
        text, wanted = self.text, needle.text
        place = text.find(wanted)
        found: list[int] = []
        row = 0
        if place >= 0 and wanted and BETWEEN not in wanted and self.is_countable:
            end = 0
            while place >= 0 and len(found) * SELDOM <= row + SELDOM * SELDOM:
                row += text.count(BETWEEN, end, place)
                found.append(row)
                row += 1
                end = text.find(BETWEEN, place) + 1
                place = text.find(wanted, end) if end else -1
        return found, row if place >= 0 else len(self.column)


@dataclass(slots=True)
class _Needle:
    """It is bytes that are looked for."""

    text: bytes
    search: Callable[[bytes], object] = field(init=False)
    """It finds them in one value; in CPython it is quicker than ``in``."""

    def __post_init__(self) -> None:
        self.search = re.compile(re.escape(self.text)).search

    def rows(self, rows: Rows, column: Sequence[bytes | None]) -> list[int]:
        """Return those of the rows whose bytes hold the needle."""
        search = self.search
        return [row for row in rows if (data := column[row]) is not None and search(data)]


@dataclass(slots=True)
class _Columns:
    """They are a batch with what several conditions need of it, made when it is first needed."""

    batch: ColumnBatch
    keeps_documents: bool = False
    """Whether more than one condition looks into a document, so that it is kept for the next."""
    numbers: dict[Part, Sequence[int]] = field(default_factory=dict)
    joined: dict[Part, _Joined] = field(default_factory=dict)
    documents: dict[Part, dict[int, Any]] = field(default_factory=dict)

    def column(self, part: Part) -> Sequence[bytes | None] | None:
        return self.batch.keys if part is Part.KEY else self.batch.values

    def numbers_of(self, part: Part) -> Sequence[int]:
        found = self.numbers.get(part)
        if found is None:
            found = self.numbers[part] = _numbers(self.batch, part)
        return found

    def join(self, part: Part) -> _Joined:
        found = self.joined.get(part)
        if found is None:
            found = self.joined[part] = _join(self.column(part) or ())
        return found

    def document(self, part: Part, row: int, data: bytes) -> Any:
        if not self.keeps_documents:
            return json_of(data)
        documents = self.documents.setdefault(part, {})
        if row not in documents:
            documents[row] = json_of(data)
        return documents[row]


def _join(column: Sequence[bytes | None]) -> _Joined:
    try:
        text = BETWEEN.join(column)  # type: ignore[arg-type]
    except TypeError:  # there is None among them
        text = BETWEEN.join([data or b"" for data in column])
    return _Joined(column, text)


def _numbers(batch: ColumnBatch, part: Part) -> Sequence[int]:
    match part:
        case Part.OFFSET:
            return batch.offsets
        case Part.TIMESTAMP:
            return batch.timestamps
        case Part.PARTITION:
            return [batch.partition] * len(batch)
        case _:
            return [0 if value is None else len(value) for value in batch.values]


# ------------------------------------------------------------------------------ conditions


def _compiled(tree: Tree) -> tuple[_Select, int]:
    """Return what selects the rows that a condition finds, and how dear it is."""
    match tree:
        case AllOf(terms):
            return _all_of(_compiled(term) for term in terms)
        case AnyOf(terms):
            return _any_of(_compiled(term) for term in terms)
        case Not(term):
            select, cost = _compiled(term)
            return lambda columns, rows: _without(rows, select(columns, rows)), cost
        case Compare(Operator.CONTAINS, Field(Part.HEADER, ""), name):
            return _scan(_header_names, lambda names: name in names), _DEAR
        case Compare(operator, left, right):
            if isinstance(right, Field):
                return _two_fields(operator, left, right), _DEAREST
            return _comparison(operator, left, right)
        case OneOf(left, literals):
            equal = comparison_of(Operator.EQUAL)
            return _tested(
                left, lambda value: any(equal(value, item) for item in literals), _name_of(left)
            )
        case Matches(left, pattern):
            return _matching(left, pattern)
        case IsNull(left):
            values = _values_of(left)
            return _scan(
                values, lambda found: all(item is None or item is MISSING for item in found)
            ), _cost(left)
        case IsMissing(left):
            return _scan(_values_of(left), _nothing_in(left)), _cost(left)


_CHEAP, _DEAR, _DEARER, _DEAREST = range(4)
"""Numbers; bytes; regular expressions; JSON."""


def _cost(what: Field) -> int:
    if what.path:
        return _DEAREST
    return _CHEAP if what.part in NUMBERS else _DEAR


def _all_of(terms: Iterable[tuple[_Select, int]]) -> tuple[_Select, int]:
    ordered = sorted(terms, key=lambda term: term[1])
    selects = [select for select, _ in ordered]

    def select(columns: _Columns, rows: Rows) -> list[int]:
        for one in selects:
            if not rows:
                break
            rows = one(columns, rows)
        return list(rows)

    return select, ordered[-1][1]


def _any_of(terms: Iterable[tuple[_Select, int]]) -> tuple[_Select, int]:
    ordered = sorted(terms, key=lambda term: term[1])
    selects = [select for select, _ in ordered]

    def select(columns: _Columns, rows: Rows) -> list[int]:
        found: list[int] = []
        for one in selects:
            more = one(columns, rows)
            found += more
            rows = _without(rows, more)
        return sorted(found)

    return select, ordered[-1][1]


def _without(rows: Rows, found: Rows) -> list[int]:
    if not found:
        return list(rows)
    taken = set(found)
    return [row for row in rows if row not in taken]


def _scan(values: _Values, holds: Callable[[Sequence[Any]], bool]) -> _Select:
    """Return what asks every row, whatever it holds."""
    return lambda columns, rows: [row for row in rows if holds(values(columns, row))]


def _comparison(operator: Operator, left: Field, right: Literal) -> tuple[_Select, int]:
    if left.part in NUMBERS:
        return _numeric(operator, left.part, right), _CHEAP
    if isinstance(right, str) and not left.path and left.part is not Part.HEADER:
        return _textual(operator, left.part, right), _DEAR
    needle = _name_of(left)
    if left.path and isinstance(right, str):
        needle = _needle(operator, right) or needle
    return _tested(left, _holds(operator, left, right), needle)


def _holds(operator: Operator, left: Field, right: Literal) -> Callable[[Any], bool]:
    """Return what says whether a value that stands in a field passes."""
    kinds = _KINDS.get(type(right))
    if left.path and kinds is not None and operator in _PYTHON:
        # What JSON holds is of few types, and most expressions ask for one of them.
        plain = _PYTHON[operator]
        return lambda value: type(value) in kinds and plain(value, right)
    compare = comparison_of(operator)
    return lambda value: compare(value, right)


_KINDS: dict[type, frozenset[type]] = {
    int: frozenset({int, float}),
    float: frozenset({int, float}),
    str: frozenset({str}),
}
"""A literal of this type is comparable with what a JSON document holds of these types."""
_PYTHON: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: python_operator.eq,
    Operator.LESS: python_operator.lt,
    Operator.LESS_OR_EQUAL: python_operator.le,
    Operator.GREATER: python_operator.gt,
    Operator.GREATER_OR_EQUAL: python_operator.ge,
}


def _numeric(operator: Operator, part: Part, right: Literal) -> _Select:
    compare = _PYTHON[operator]

    def select(columns: _Columns, rows: Rows) -> list[int]:
        numbers = columns.numbers_of(part)
        if isinstance(numbers, range) and numbers and operator is not Operator.EQUAL:
            # Numbers that grow hold or do not hold up to one place: often all of them are alike.
            first, last = compare(numbers[0], right), compare(numbers[-1], right)
            if first == last:
                return list(rows) if first else []
        if len(rows) == len(numbers):
            return [row for row, number in enumerate(numbers) if compare(number, right)]
        return [row for row in rows if compare(numbers[row], right)]

    return select


def _textual(operator: Operator, part: Part, right: str) -> _Select:
    """Return the comparison of bytes with text."""
    wanted = as_bytes(right)
    needle = _Needle(wanted)
    compare = comparison_of(operator)
    within = operator in (Operator.EQUAL, Operator.CONTAINS, Operator.STARTS)

    def select(columns: _Columns, rows: Rows) -> list[int]:
        column = columns.column(part)
        if column is None:
            return []
        if within and len(rows) == len(columns.batch):
            rows = columns.join(part).rows_with(needle)
            if operator is Operator.CONTAINS:
                return list(rows)
        if operator is Operator.CONTAINS:
            return needle.rows(rows, column)
        if operator is Operator.EQUAL:
            return [row for row in rows if column[row] == wanted]
        return [row for row in rows if compare(column[row], right)]

    return select


def _matching(left: Field, text: str) -> tuple[_Select, int]:
    search = compile_pattern(text).search

    def holds(value: Any) -> bool:
        if isinstance(value, str):
            value = as_utf8(value)
        return isinstance(value, bytes) and search(value) is not None

    if left.path or left.part is Part.HEADER:
        select, cost = _tested(left, holds, _name_of(left))
        return select, max(cost, _DEARER)

    def select_bytes(columns: _Columns, rows: Rows) -> list[int]:
        column = columns.column(left.part)
        if column is None:
            return []
        return [row for row in rows if (data := column[row]) is not None and search(data)]

    return select_bytes, _DEARER


def _tested(left: Field, holds: Callable[[Any], bool], needle: bytes | None) -> tuple[_Select, int]:
    """Return what asks the rows that hold the needle whether one of their values passes."""
    sought = None if needle is None else _Needle(needle)
    asked = _asked_documents(left, holds) if left.path else _asked_values(left, holds)

    def select(columns: _Columns, rows: Rows) -> list[int]:
        if sought is not None:
            rows = _survivors(columns, left.part, rows, sought)
        return asked(columns, rows)

    return select, _cost(left)


def _asked_values(left: Field, holds: Callable[[Any], bool]) -> _Select:
    values = _values_of(left)
    return lambda columns, rows: [row for row in rows if any(map(holds, values(columns, row)))]


def _asked_documents(left: Field, holds: Callable[[Any], bool]) -> _Select:
    """Return what asks the documents of rows; a row without bytes never passes."""
    part, at = left.part, path_reader(left.path)

    def select(columns: _Columns, rows: Rows) -> list[int]:
        column = columns.column(part)
        if column is None:
            return []
        if not columns.keeps_documents:
            return [
                row
                for row in rows
                if (data := column[row]) is not None and holds(at(json_of(data)))
            ]
        document = columns.document
        return [
            row
            for row in rows
            if (data := column[row]) is not None and holds(at(document(part, row, data)))
        ]

    return select


def _two_fields(operator: Operator, left: Field, right: Field) -> _Select:
    compare = comparison_of(operator)
    lefts, rights = _values_of(left), _values_of(right)

    def select(columns: _Columns, rows: Rows) -> list[int]:
        return [
            row
            for row in rows
            if any(compare(a, b) for a in lefts(columns, row) for b in rights(columns, row))
        ]

    return select


# ------------------------------------------------------------------------------ what JSON needs


def _name_of(left: Field) -> bytes | None:
    """Return bytes that JSON with something at the path holds, if it holds no ``\\u``."""
    names = [step for step in left.path if isinstance(step, str)]
    found = [as_bytes(f'"{name}"') for name in names if not _UNSAFE.search(name)]
    return max(found, key=len, default=None)


def _needle(operator: Operator, text: str) -> bytes | None:
    """Return bytes that JSON holds which has this text, or one with it in it."""
    if operator not in (Operator.EQUAL, Operator.CONTAINS, Operator.STARTS):
        return None
    if _UNSAFE.search(text):
        return max((as_bytes(run) for run in _UNSAFE.split(text)), key=len) or None
    match operator:
        case Operator.EQUAL:
            text = f'"{text}"'
        case Operator.STARTS:
            text = f'"{text}'
    return as_bytes(text) or None


def _survivors(columns: _Columns, part: Part, rows: Rows, needle: _Needle) -> Rows:
    """Return all rows whose bytes hold the needle or may spell it otherwise, and maybe others."""
    column = columns.column(part)
    if column is None:
        return ()
    if len(rows) == len(columns.batch):
        joined = columns.join(part)
        if not joined.escapes:
            return joined.rows_to_read(needle)
    return [
        row
        for row in rows
        if (data := column[row]) is not None and (needle.search(data) or _ESCAPE in data)
    ]


# ------------------------------------------------------------------------------ values of fields


def _values_of(what: Field) -> _Values:
    """Return the function that gives what stands in a field of one record."""
    part, name, path = what.part, what.name, what.path
    if part is Part.HEADER:
        return lambda columns, row: _headers(columns, row, name)
    if part in NUMBERS:
        return lambda columns, row: (columns.numbers_of(part)[row],)
    if not path:
        return lambda columns, row: (_data(columns, part, row),)

    def at(columns: _Columns, row: int) -> Sequence[Any]:
        data = _data(columns, part, row)
        if data is None:
            return (MISSING,)
        return (at_path(columns.document(part, row, data), path),)

    return at


def _data(columns: _Columns, part: Part, row: int) -> bytes | None:
    column = columns.column(part)
    return None if column is None else column[row]


def _headers(columns: _Columns, row: int, name: str) -> Sequence[bytes | None]:
    headers = columns.batch.headers
    return () if headers is None else [data for key, data in headers[row] if key == name]


def _header_names(columns: _Columns, row: int) -> Sequence[str]:
    headers = columns.batch.headers
    return () if headers is None else [key for key, _ in headers[row]]


def _nothing_in(what: Field) -> Callable[[Sequence[Any]], bool]:
    if what.part is Part.HEADER:
        return lambda found: not found
    if what.path:
        return lambda found: found[0] is MISSING
    return lambda found: found[0] is None
