"""A filter expression is a tree of conditions, and any tree can be written as text again. Pure.

``docs/filter-expressions.md`` says what conditions mean; ``columns.py`` finds records by them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

Literal = str | int | float | bool
Step = str | int
"""A step into a JSON document: the name of a member, or the index of an element."""


class Part(StrEnum):
    """A field is this part of a record, or lies in it."""

    KEY = "key"
    VALUE = "value"
    HEADER = "header"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PARTITION = "partition"
    SIZE = "size"


NUMBERS = frozenset({Part.OFFSET, Part.TIMESTAMP, Part.PARTITION, Part.SIZE})
"""These are integers in every record; the others are bytes, or not there."""


class Operator(StrEnum):
    """A comparison asks this of its two sides."""

    EQUAL = "=="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    CONTAINS = "contains"
    STARTS = "starts"


@dataclass(frozen=True, slots=True)
class Field:
    """A field is a part of a record, a header, or a place in the JSON of key or value."""

    part: Part
    name: str = ""
    """The name of a header; of other parts it is empty."""
    path: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """The condition holds where the operator holds between the two sides."""

    operator: Operator
    left: Field
    right: Field | Literal


@dataclass(frozen=True, slots=True)
class OneOf:
    """The condition holds where the field equals one of the literals."""

    field: Field
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """The condition holds where the regular expression is found in the field."""

    field: Field
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """The condition holds where the field has no value, or JSON's ``null``."""

    field: Field


@dataclass(frozen=True, slots=True)
class IsMissing:
    """The condition holds where the field is not there at all."""

    field: Field


@dataclass(frozen=True, slots=True)
class Not:
    """The condition holds where the other one does not."""

    term: Tree


@dataclass(frozen=True, slots=True)
class AllOf:
    """The condition holds where all of the others do; there are two or more."""

    terms: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The condition holds where one of the others does; there are two or more."""

    terms: tuple[Tree, ...]


Tree = Compare | OneOf | Matches | IsNull | IsMissing | Not | AllOf | AnyOf


def fields_of(tree: Tree) -> Iterator[Field]:
    """Yield the field of each condition of a tree, and both where two are compared."""
    match tree:
        case AllOf(terms) | AnyOf(terms):
            for term in terms:
                yield from fields_of(term)
        case Not(term):
            yield from fields_of(term)
        case Compare(_, left, right):
            yield left
            if isinstance(right, Field):
                yield right
        case OneOf(field) | Matches(field) | IsNull(field) | IsMissing(field):
            yield field


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""
PLAIN_NAME = re.compile(r"[^\W\d]\w*")
"""A name in a path that needs no quotes."""


def text_of(tree: Tree) -> str:
    """Return an expression that is parsed into this tree; it holds no ``now``."""
    match tree:
        case Not(Compare(Operator.EQUAL, left, right)):
            return f"{field_text(left)} != {_side(left, right)}"
        case Not(OneOf(field, literals)):
            return f"{field_text(field)} not in {_list(field, literals)}"
        case Not(Matches(field, pattern)):
            return f"{field_text(field)} not matches {literal_text(pattern)}"
        case Not(IsNull(field)):
            return f"{field_text(field)} is not null"
        case Not(IsMissing(field)):
            return f"{field_text(field)} is not missing"
        case Not(term):
            return f"not {_bracketed(term, AllOf, AnyOf)}"
        case Compare(operator, left, right):
            return f"{field_text(left)} {operator} {_side(left, right)}"
        case OneOf(field, literals):
            return f"{field_text(field)} in {_list(field, literals)}"
        case Matches(field, pattern):
            return f"{field_text(field)} matches {literal_text(pattern)}"
        case IsNull(field):
            return f"{field_text(field)} is null"
        case IsMissing(field):
            return f"{field_text(field)} is missing"
        case AllOf(terms):
            return " and ".join(_bracketed(term, AllOf, AnyOf) for term in terms)
        case AnyOf(terms):
            return " or ".join(_bracketed(term, AnyOf) for term in terms)


def _bracketed(tree: Tree, *kinds: type[AllOf | AnyOf]) -> str:
    """Return the text of a condition, in brackets if it is of one of these kinds."""
    return f"({text_of(tree)})" if isinstance(tree, kinds) else text_of(tree)


def _side(field: Field, side: Field | Literal) -> str:
    """Return the right side of a comparison; a field of times is compared with a time."""
    if isinstance(side, Field):
        return field_text(side)
    if field.part is Part.TIMESTAMP and type(side) is int and 0 <= side <= _TIME_MS_MAX:
        moment = EPOCH + timedelta(milliseconds=side)
        return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return literal_text(side)


def _list(field: Field, literals: tuple[Literal, ...]) -> str:
    return f"({', '.join(_side(field, literal) for literal in literals)})"


def field_text(field: Field) -> str:
    """Return the field as it is written in an expression."""
    text = field.part.value
    if field.part is Part.HEADER and field.name:
        text += f"[{literal_text(field.name)}]"
    for step in field.path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if PLAIN_NAME.fullmatch(step) else f"[{literal_text(step)}]"
    return text


def literal_text(literal: Literal) -> str:
    """Return the literal as it is written in an expression."""
    if isinstance(literal, bool):
        return "true" if literal else "false"
    if isinstance(literal, str):
        return json.dumps(literal, ensure_ascii=False)
    return repr(literal)
