"""The grammar of ``--grep`` says which records ``consume`` prints. Pure.

A filter is a regular expression that is searched for, behind the part it is searched in::

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

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncelog import Record

RecordFilter = Callable[["Record"], bool]

_PARTS = ("value", "key", "header")


def parse_filters(items: Sequence[str]) -> RecordFilter | None:
    """Return a filter that all of ``items`` make together; None without any.

    :raises ValueError: one of them is none; the text names it.
    """
    filters = [_parse(item) for item in items]
    if not filters:
        return None
    return lambda record: all(matches(record) for matches in filters)


def _parse(text: str) -> RecordFilter:
    if text.startswith("!"):
        wanted = _parse(text[1:])
        return lambda record: not wanted(record)
    if text == "null":
        return lambda record: record.value is None
    part, colon, rest = text.partition(":")
    if not colon or part not in _PARTS:
        part, rest = "value", text
    if not rest:
        raise ValueError(f"{text!r}: nothing to look for")
    if part == "header":
        return _header(rest, text)
    pattern = _compile(rest, text)
    if part == "key":
        return lambda record: record.key is not None and bool(pattern.search(record.key))
    return lambda record: record.value is not None and bool(pattern.search(record.value))


def _header(rest: str, text: str) -> RecordFilter:
    name, equals, expression = rest.partition("=")
    if not name:
        raise ValueError(f"{text!r}: a header has a name")
    if not equals:
        return lambda record: any(key == name for key, _ in record.headers)
    pattern = _compile(expression, text)
    return lambda record: any(
        key == name and value is not None and bool(pattern.search(value))
        for key, value in record.headers
    )


def _compile(expression: str, text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(expression.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise ValueError(f"{text!r} holds no regular expression: {error}") from None
