"""What stands in fields is compared here: bytes, and what JSON documents hold. Pure.

Rules
-----
* Bytes are text where they are compared with text, and JSON where they are compared with a number,
  with true or false.
* Things of different kinds are neither equal nor less nor more; ``null``, lists and objects are
  equal to nothing.
* JSON is what Python's ``json`` takes for it. Where msgspec is installed (``oncelog[json]``) it
  reads first: what it takes is the same, and what it refuses is for ``json`` to judge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from oncelog_cli.where.tree import Operator, Step


class Missing:
    """There is nothing where a field says, not even ``null``."""


MISSING: Final = Missing()

_decoder: Any = json.JSONDecoder()  # the types of the standard library leave out its scanner
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once
"""It is what ``json.loads`` does without the rest, in half the time."""
Comparison = Callable[[Any, Any], bool]


@cache
def fast_reader() -> Callable[[bytes], Any] | None:
    """Return what reads JSON some three times as fast as Python; None: it is not installed."""
    try:
        from msgspec.json import Decoder
    except ImportError:
        return None
    return Decoder().decode


def json_of(data: bytes) -> Any:
    """Return the document that bytes hold as JSON in UTF-8; MISSING if they hold none."""
    fast = fast_reader()
    if fast is not None:
        try:
            return fast(data)
        except Exception:
            # Older releases of msgspec have no base of errors in common. It refuses NaN, numbers
            # that are too large and halves of surrogate pairs, all of which Python takes.
            pass
    try:
        text = data.decode()
        try:
            # What JSON mostly is: one document without white space around it.
            document, end = _scan(text, 0)
            if end == len(text):
                return document
        except StopIteration:
            pass
        return json.loads(text)
    except (ValueError, RecursionError):
        return MISSING


def at_path(document: Any, path: Sequence[Step]) -> Any:
    """Return what a document holds at the end of a path; MISSING if it does not go that far."""
    for step in path:
        if isinstance(step, str):
            if not isinstance(document, dict) or step not in document:
                return MISSING
        elif not isinstance(document, list) or step >= len(document):
            return MISSING
        document = document[step]
    return document


def path_reader(path: Sequence[Step]) -> Callable[[Any], Any]:
    """Return the function that does what ``at_path`` does along one path."""
    if len(path) == 1 and isinstance(path[0], str):
        name = path[0]
        # Most paths are a name in an object.
        return lambda document: (
            document.get(name, MISSING) if isinstance(document, dict) else MISSING
        )
    return lambda document: at_path(document, path)


def as_bytes(text: str) -> bytes:
    """Return text of an expression as UTF-8; bytes of a command line that were none stay."""
    return text.encode("utf-8", "surrogateescape")


def comparison_of(operator: Operator) -> Comparison:
    """Return the function that says whether the operator holds between two values."""
    return _COMPARISONS[operator]


def _alike(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Return both sides so that Python compares them; None where they are of different kinds."""
    if isinstance(left, bytes) or isinstance(right, bytes):
        left, right = _met(left, right), _met(right, left)
    if isinstance(left, bool) or isinstance(right, bool):
        return (left, right) if type(left) is type(right) else None
    for kind in (str, bytes, int | float):
        if isinstance(left, kind) and isinstance(right, kind):
            return left, right
    return None


def _met(value: Any, other: Any) -> Any:
    """Return what bytes are beside the other value, or the other beside bytes."""
    if isinstance(value, bytes):
        return value if isinstance(other, str | bytes) else json_of(value)
    return as_utf8(value) if isinstance(value, str) else value


def as_utf8(text: str) -> bytes:
    """Return text of an expression or of a JSON document as bytes.

    JSON may name half of a surrogate pair, which no other bytes are equal to.
    """
    try:
        return as_bytes(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _equal(left: Any, right: Any) -> bool:
    sides = _alike(left, right)
    return sides is not None and bool(sides[0] == sides[1])


def _ordered(compare: Comparison) -> Comparison:
    def holds(left: Any, right: Any) -> bool:
        sides = _alike(left, right)
        return sides is not None and not isinstance(sides[0], bool) and compare(*sides)

    return holds


def _contains(left: Any, right: Any) -> bool:
    if isinstance(left, bytes):
        if isinstance(right, str):
            return as_bytes(right) in left
        left = json_of(left)
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and any(_equal(item, right) for item in left)


def _starts(left: Any, right: Any) -> bool:
    if isinstance(left, bytes):
        return left.startswith(as_bytes(right))
    return isinstance(left, str) and left.startswith(right)


_COMPARISONS: dict[Operator, Comparison] = {
    Operator.EQUAL: _equal,
    Operator.LESS: _ordered(lambda left, right: bool(left < right)),
    Operator.LESS_OR_EQUAL: _ordered(lambda left, right: bool(left <= right)),
    Operator.GREATER: _ordered(lambda left, right: bool(left > right)),
    Operator.GREATER_OR_EQUAL: _ordered(lambda left, right: bool(left >= right)),
    Operator.CONTAINS: _contains,
    Operator.STARTS: _starts,
}
