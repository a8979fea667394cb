"""A filter chooses the records that ``consume`` prints, from ``--grep`` and ``--where``.

``--where`` is the language of ``docs/filter-expressions.md``. A filter of ``--grep`` is a regular
expression that is searched for, behind the part it is searched in::

    refund              in the value
    value:refund        the same
    key:^user-42$       in the key
    header:trace=^00-   in the values of the headers of that name
    header:trace        there is a header of that name
    null                the value is none: tombstones

A ``!`` in front turns a filter round. Bytes are matched, text as UTF-8: ``.`` is a byte. A part
that is not there does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.where.columns import finder_of
from oncelog_cli.where.pattern import compile_pattern
from oncelog_cli.where.tree import (
    AllOf,
    Compare,
    Field,
    IsNull,
    Matches,
    Not,
    Operator,
    Part,
    Tree,
)

if TYPE_CHECKING:
    from oncelog import Record

RecordFilter = Callable[[Sequence["Record"]], list["Record"]]

_PARTS = ("value", "key", "header")


def parse_filter(text: str) -> Tree:
    """Return the condition that one filter of ``--grep`` stands for.

    :raises ValueError: it is none; the text names it.
    """
    if text.startswith("!"):
        return Not(parse_filter(text[1:]))
    if text == "null":
        return IsNull(Field(Part.VALUE))
    part, colon, rest = text.partition(":")
    if not colon or part not in _PARTS:
        part, rest = "value", text
    if not rest:
        raise ValueError(f"{text!r}: nothing to look for")
    if part == "header":
        return _header(rest, text)
    return _matches(Field(Part(part)), rest, text)


def _header(rest: str, text: str) -> Tree:
    name, equals, expression = rest.partition("=")
    if not name:
        raise ValueError(f"{text!r}: a header has a name")
    if not equals:
        return Compare(Operator.CONTAINS, Field(Part.HEADER), name)
    return _matches(Field(Part.HEADER, name), expression, text)


def _matches(field: Field, expression: str, text: str) -> Tree:
    try:
        compile_pattern(expression)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    return Matches(field, expression)


def filter_of(
    trees: Sequence[Tree], seen_as: Callable[[Record], Record] | None = None
) -> RecordFilter | None:
    """Return what keeps the records of one partition that all trees find; None without any.

    :param seen_as: conditions are asked of what this makes of a record, in place of the record.
    """
    if not trees:
        return None
    from oncelog import ColumnBatch

    find = finder_of(trees[0] if len(trees) == 1 else AllOf(tuple(trees)))

    def keep(records: Sequence[Record]) -> list[Record]:
        if not records:
            return []
        seen = records if seen_as is None else list(map(seen_as, records))
        _, _, offsets, timestamps, keys, values, headers = zip(*seen, strict=True)
        first = seen[0]
        batch = ColumnBatch(
            first.topic, first.partition, offsets, timestamps, keys, values, headers
        )
        return [records[row] for row in find(batch)]

    return keep
