"""One JSON document becomes the value of a column, field by field, as with Spark's ``from_json``.

Rules
-----
* What does not fit makes null of the smallest struct field that it stands in, and of nothing else.
  An array or a map with an element that does not fit is such a field; structs in them are not.
* A document that is no JSON, or not of the schema's shape, is a struct of nulls; white space alone
  is null, and no misfit. What comes behind a document is not looked at.
* Of a name that comes twice the last value counts that fits.
* Stricter than Spark: in a document that is broken somewhere nothing is taken from before.
* Values are what Arrow takes for the type, within its range: structs are tuples, times are numbers.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException
from functools import partial
from typing import Any

import pyarrow as pa

from pyspark_oncelog.json_text import (
    NOT_NUMBERS,
    Malformed,
    Token,
    after_space,
    after_value,
    name_of,
    storable,
    token,
    written,
)
from pyspark_oncelog.moments import (
    LONG_MAX,
    LONG_MIN,
    SECOND,
    NoMoment,
    parse_date,
    parse_timestamp,
)

Reader = Callable[[str, int], tuple[Any, int]]
"""It takes a text and where a value begins, and gives the value and where it ends."""
Convert = Callable[[Token, str], Any]

INT_DIGITS = 20
"""The characters of a number that may fit into 64 bits, with its sign."""
BYTE_MAX = 255
"""Jackson takes bytes without a sign too, and Java makes them negative."""
DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,10})?")
EXACT = Context(prec=2100, Emax=10**9, Emin=-(10**9), rounding=ROUND_HALF_UP)
QUADS = re.compile(
    r"(?:[\x00-\x20]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\x00-\x20]*"
)
QUAD = re.compile(r"[A-Za-z0-9+/=]{4}")


class Misfit(ValueError):
    """A value does not fit its type."""


class Documents:
    """All documents are read as one type here.

    :param zone: of times that name none.
    """

    def __init__(self, kind: pa.DataType, zone: tzinfo) -> None:
        self._kind = kind
        self._zone = zone
        self._problem: str | None = None
        self._nothing = (None,) * kind.num_fields if pa.types.is_struct(kind) else None
        self._root = self._reader(kind, "")
        item = kind.value_type if pa.types.is_list(kind) else None
        self._item = self._reader(item, "[]") if pa.types.is_struct(item or pa.null()) else None

    def read(self, document: bytes) -> tuple[Any, str | None]:
        """Read a document; return (the value, the first thing that did not fit, named, or None)."""
        text = decoded(document)
        at = after_space(text, 0)
        if at == len(text):
            return None, None
        self._problem = None
        try:
            if self._item is not None and text[at] == "{":
                return [self._item(text, at)[0]], self._problem  # one is as good as a list of one
            if not pa.types.is_nested(self._kind):
                raise Malformed(f"no column of type {self._kind} is made from JSON")
            value, _ = self._root(text, at)
        except (Malformed, Misfit) as error:
            return self._nothing, str(error)
        if value is None:
            return self._nothing, "null is no document"
        return value, self._problem

    # --------------------------------------------------------------------------- what has parts

    def _reader(self, kind: pa.DataType, path: str) -> Reader:
        if pa.types.is_struct(kind):
            return self._struct(kind, path)
        if pa.types.is_list(kind):
            return self._list(kind, path)
        if pa.types.is_map(kind):
            return self._map(kind, path)
        if pa.types.is_string(kind):
            return _text
        convert = _converter(kind, self._zone)

        def read(text: str, at: int) -> tuple[Any, int]:
            found, shown, end = token(text, at)
            return (None if found is Token.NULL else convert(found, shown)), end

        return read

    def _struct(self, kind: pa.DataType, path: str) -> Reader:
        names = [field.name for field in kind]
        readers = {
            name: (index, self._reader(kind[index].type, f"{path}.{name}" if path else name))
            for index, name in enumerate(names)
        }

        def read(text: str, at: int) -> tuple[Any, int]:
            at, more = _open(text, at, Token.OBJECT)
            if more is None:
                return None, at
            row: list[Any] = [None] * len(names)
            while more:
                name, at = name_of(text, at)
                if name in readers:
                    index, field = readers[name]
                    try:
                        row[index], at = field(text, at)
                    except Misfit as error:
                        if self._problem is None:
                            self._problem = f"{f'{path}.' if path else ''}{name}: {error}"
                        at = after_value(text, at)
                else:
                    at = after_value(text, at)
                at, more = _next(text, at, "}")
            return tuple(row), at

        return read

    def _list(self, kind: pa.DataType, path: str) -> Reader:
        item = self._reader(kind.value_type, f"{path}[]")

        def read(text: str, at: int) -> tuple[Any, int]:
            at, more = _open(text, at, Token.ARRAY)
            if more is None:
                return None, at
            values: list[Any] = []
            while more:
                value, at = item(text, at)
                values.append(value)
                at, more = _next(text, at, "]")
            return values, at

        return read

    def _map(self, kind: pa.DataType, path: str) -> Reader:
        item = self._reader(kind.item_type, f"{path}{{}}")

        def read(text: str, at: int) -> tuple[Any, int]:
            at, more = _open(text, at, Token.OBJECT)
            if more is None:
                return None, at
            values: list[tuple[str, Any]] = []
            while more:
                name, at = name_of(text, at)
                value, at = item(text, at)
                values.append((storable(name), value))
                at, more = _next(text, at, "}")
            return values, at

        return read


def decoded(document: bytes) -> str:
    """Return the text of a document, with the mark of Unicode for each piece that is none.

    The pieces are Java's: it takes half of a surrogate pair for one piece where Python sees three.
    """
    try:
        return document.decode()
    except UnicodeDecodeError:
        whole = re.sub(rb"\xed[\xa0-\xbf][\x80-\xbf]", b"\xef\xbf\xbd", document)
        return whole.decode(errors="replace")


def _open(text: str, at: int, wanted: Token) -> tuple[int, bool | None]:
    """Return where reading goes on in a value that should be ``wanted``, and whether it has parts.

    That is None for null, and reading goes on behind it then.

    :raises Misfit: it is neither.
    """
    found, shown, end = token(text, at)
    if found is Token.NULL:
        return end, None
    if found is not wanted:
        raise Misfit(f"{_shown(found, shown)} is not {wanted.value}")
    at = after_space(text, end)
    if text.startswith("}" if wanted is Token.OBJECT else "]", at):
        return at + 1, False
    return at, True


def _next(text: str, at: int, closing: str) -> tuple[int, bool]:
    """Return where reading goes on behind a value, and whether another one follows."""
    at = after_space(text, at)
    if text.startswith(",", at):
        return after_space(text, at + 1), True
    if text.startswith(closing, at):
        return at + 1, False
    raise Malformed(f"{text[at : at + 1]!r} at {at} instead of , or {closing}")


# --------------------------------------------------------------------------------- single values


def _text(text: str, at: int) -> tuple[str | None, int]:
    found, shown, end = token(text, at)
    if found is Token.STRING:
        return storable(shown), end
    if found is Token.NULL:
        return None, end
    if found in (Token.OBJECT, Token.ARRAY):
        pieces: list[str] = []
        end = after_value(text, at, pieces)
        return "".join(pieces), end
    return written(found, shown), end


def _converter(kind: pa.DataType, zone: tzinfo) -> Convert:
    if pa.types.is_boolean(kind):
        return _boolean
    if pa.types.is_integer(kind):
        return _integers(kind.bit_width)
    if pa.types.is_floating(kind):
        return _single if kind.bit_width == 32 else _double
    if pa.types.is_decimal(kind):
        return _decimals(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        without_zone = _texts("TIMESTAMP_NTZ", partial(parse_timestamp, zone=None))
        return without_zone if kind.tz is None else _timestamps(zone)
    if pa.types.is_date(kind):
        return _texts("DATE", parse_date)
    if pa.types.is_binary(kind):
        return _bytes

    def refuse(found: Token, shown: str) -> Any:
        raise Misfit(f"no column of type {kind} is made from JSON")

    return refuse


def _boolean(found: Token, shown: str) -> bool:
    if found not in (Token.TRUE, Token.FALSE):
        raise Misfit(f"{_shown(found, shown)} is no BOOLEAN")
    return found is Token.TRUE


def _integers(bits: int) -> Convert:
    name = {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[bits]
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    highest = BYTE_MAX if bits == 8 else high

    def convert(found: Token, shown: str) -> int:
        if found is not Token.INT or len(shown) > INT_DIGITS:
            raise Misfit(f"{_shown(found, shown)} is no {name}")
        number = int(shown)
        if not low <= number <= highest:
            raise Misfit(f"{_shown(found, shown)} is beyond what {name} holds")
        return number if number <= high else number - 2**bits

    return convert


def _double(found: Token, shown: str) -> float:
    if found in (Token.INT, Token.FLOAT):
        return 0.0 if shown == "-0" else float(shown)
    if found is Token.NOT_A_NUMBER or (found is Token.STRING and shown in NOT_NUMBERS):
        return NOT_NUMBERS[shown]
    raise Misfit(f"{_shown(found, shown)} is no number")


def _single(found: Token, shown: str) -> float:
    number = _double(found, shown)
    if found not in (Token.INT, Token.FLOAT) or number == 0:
        return number
    try:
        rounded: float = pa.scalar(shown).cast(pa.float32()).as_py()  # once, not by way of a double
    except pa.ArrowInvalid:
        return float("inf") if number > 1 else float("-inf") if number < -1 else number
    return rounded


def _decimals(precision: int, scale: int) -> Convert:
    step, limit = Decimal(1).scaleb(-scale, EXACT), 10**precision

    def convert(found: Token, shown: str) -> Decimal:
        number = found in (Token.INT, Token.FLOAT, Token.STRING)
        digits = shown.replace(",", "")  # in text they part thousands
        if not number or not DECIMAL_TEXT.fullmatch(digits):
            raise Misfit(f"{_shown(found, shown)} is no DECIMAL({precision},{scale})")
        try:
            rounded = Decimal(digits).quantize(step, context=EXACT)
        except DecimalException as error:
            raise Misfit(f"{_shown(found, shown)} is no DECIMAL({precision},{scale})") from error
        if abs(rounded.scaleb(scale, EXACT)) >= limit:
            raise Misfit(f"{_shown(found, shown)} is beyond DECIMAL({precision},{scale})")
        return rounded

    return convert


def _timestamps(zone: tzinfo) -> Convert:
    def convert(found: Token, shown: str) -> int:
        if found is Token.STRING:
            return _moment(parse_timestamp, shown, zone)
        if found is not Token.INT or len(shown) > INT_DIGITS:
            raise Misfit(f"{_shown(found, shown)} is no TIMESTAMP")
        seconds = int(shown)
        if not LONG_MIN <= seconds <= LONG_MAX:
            raise Misfit(f"{_shown(found, shown)} is no TIMESTAMP")
        # What is beyond the range comes round, as Java's numbers do.
        return (seconds * SECOND - LONG_MIN) % 2**64 + LONG_MIN

    return convert


def _texts(name: str, parse: Callable[[str], int]) -> Convert:
    def convert(found: Token, shown: str) -> int:
        if found is not Token.STRING:
            raise Misfit(f"{_shown(found, shown)} is no {name}")
        return _moment(parse, shown)

    return convert


def _moment(parse: Callable[..., int], *arguments: Any) -> int:
    try:
        return parse(*arguments)
    except NoMoment as error:
        raise Misfit(str(error)) from error


def _bytes(found: Token, shown: str) -> bytes:
    if found is not Token.STRING or not QUADS.fullmatch(shown):
        raise Misfit(f"{_shown(found, shown)} is no BINARY in base64")
    return b"".join(map(binascii.a2b_base64, QUAD.findall(shown)))


def _shown(found: Token, shown: str) -> str:
    if found in (Token.OBJECT, Token.ARRAY):
        return str(found.value)
    return f"{shown!r:.60}" if found is Token.STRING else shown[:60]
