"""JSON is parsed as Spark's reader (Jackson) does: single quotes and NaN too, text from any value.
Pure.

Rules
-----
* Positions are into one text. A reader is given where a value begins and gives back where it ends.
* What is no JSON is :class:`Malformed`, wherever it stands: also in a value that nobody wants.
* Text that is made of a value is what Jackson's generator makes: no white space, numbers as Java
  prints them. (Java prints a few doubles with more digits than needed before version 19.)
* Nothing here recurses: documents come from anybody.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum


class Malformed(ValueError):
    """The text is no JSON."""


class Token(Enum):
    """A value begins with one of these."""

    OBJECT = "an object"
    ARRAY = "an array"
    STRING = "text"
    INT = "a whole number"
    FLOAT = "a number"
    NOT_A_NUMBER = "NaN or infinity"
    TRUE = "true"
    FALSE = "false"
    NULL = "null"


SPACE = re.compile(r"[ \t\n\r]*")
QUOTED = re.compile(
    r'"([^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*)"'
    r"|'([^'\\\x00-\x1f]*(?:\\.[^'\\\x00-\x1f]*)*)'"
)
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
WORD = re.compile(r"true|false|null|NaN|[+-]INF|[+-]?Infinity")
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
LONE = re.compile("[\ud800-\udfff]")
ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')

ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
ESCAPES |= {mark: mark for mark in "\"\\/'"}
SHORT = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", '"': '"', "\\": "\\"}

WORDS = {"true": Token.TRUE, "false": Token.FALSE, "null": Token.NULL}
NOT_NUMBERS = {
    "NaN": float("nan"),
    "Infinity": float("inf"), "+Infinity": float("inf"), "+INF": float("inf"),
    "-Infinity": float("-inf"), "-INF": float("-inf"),
}  # fmt: skip
"""Words that are numbers as values, and as text in a FLOAT or DOUBLE."""


def after_space(text: str, at: int) -> int:
    """Return where the next character stands that is no white space."""
    found = SPACE.match(text, at)
    return at if found is None else found.end()


def token(text: str, at: int) -> tuple[Token, str, int]:
    """Return what stands at ``at``, its text and its end; of an object or array the first mark.

    The text of a string is what it stands for; a half of a surrogate pair stays one.

    :raises Malformed: nothing of JSON stands there.
    """
    mark = text[at : at + 1]
    if mark == '"' or mark == "'":
        found = QUOTED.match(text, at)
        if found is None:
            raise Malformed(f"text without an end, or with a raw control character, at {at}")
        return Token.STRING, unescaped(found[1] if mark == '"' else found[2]), found.end()
    if mark == "{":
        return Token.OBJECT, mark, at + 1
    if mark == "[":
        return Token.ARRAY, mark, at + 1
    if found := WORD.match(text, at):
        return WORDS.get(found[0], Token.NOT_A_NUMBER), found[0], found.end()
    if found := NUMBER.match(text, at):
        whole = found[1] is None and found[2] is None
        return Token.INT if whole else Token.FLOAT, found[0], found.end()
    raise Malformed(f"{text[at : at + 10]!r} at {at} is no JSON" if mark else "it has no end")


def unescaped(inner: str) -> str:
    """Return the text between quotes, without its escapes.

    :raises Malformed: there is no such escape.
    """
    if "\\" not in inner:
        return inner

    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return chr(int(found[1], 16))
        if found[2] not in ESCAPES:
            raise Malformed(f"there is no escape \\{found[2]}")
        return ESCAPES[found[2]]

    return PAIR.sub(_joined, ESCAPE.sub(one, inner))


def _joined(pair: re.Match[str]) -> str:
    high, low = map(ord, pair[0])
    return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)


def storable(text: str) -> str:
    """Return ``text`` as UTF-8 can hold it: Java writes ? for half of a surrogate pair."""
    return LONE.sub("?", text) if not text.isascii() else text


def after_value(text: str, at: int, out: list[str] | None = None) -> int:
    """Return where the value at ``at`` ends.

    :param out: takes the value as Jackson writes it, piece by piece.
    :raises Malformed: it is none.
    """
    open_marks: list[str] = []
    while True:
        kind, found, at = token(text, at)
        if kind in (Token.OBJECT, Token.ARRAY):
            if out is not None:
                out.append(found)
            closing = "}" if kind is Token.OBJECT else "]"
            at = after_space(text, at)
            if not text.startswith(closing, at):
                open_marks.append(closing)
                at = _name(text, at, out) if closing == "}" else at
                continue
            at += 1
            if out is not None:
                out.append(closing)
        elif out is not None:
            out.append(written(kind, found))
        more = _close(text, at, open_marks, out)
        if not open_marks:
            return more
        at = more


def _close(text: str, at: int, open_marks: list[str], out: list[str] | None) -> int:
    """Close what is closed behind a value, and return where the next value begins."""
    while open_marks:
        at = after_space(text, at)
        mark = text[at : at + 1]
        if mark == ",":
            if out is not None:
                out.append(mark)
            at = after_space(text, at + 1)
            return _name(text, at, out) if open_marks[-1] == "}" else at
        if mark != open_marks[-1]:
            raise Malformed(f"{mark!r} at {at} instead of , or {open_marks[-1]}")
        if out is not None:
            out.append(mark)
        open_marks.pop()
        at += 1
    return at


def _name(text: str, at: int, out: list[str] | None) -> int:
    name, at = name_of(text, at)
    if out is not None:
        out += [quoted(name), ":"]
    return at


def name_of(text: str, at: int) -> tuple[str, int]:
    """Return (the name of a field, where its value begins).

    :raises Malformed: none stands at ``at``.
    """
    if text[at : at + 1] not in ('"', "'"):
        raise Malformed(f"{text[at : at + 10]!r} at {at} is no field")
    _, name, at = token(text, at)
    at = after_space(text, at)
    if not text.startswith(":", at):
        raise Malformed(f"no : at {at}")
    return name, after_space(text, at + 1)


def written(kind: Token, found: str) -> str:
    """Write a single value as Jackson does; infinity and NaN are in quotes."""
    if kind is Token.STRING:
        return quoted(found)
    if kind is Token.INT:
        return "0" if found == "-0" else found
    if kind is Token.FLOAT:
        return java_double(float(found))
    if kind is Token.NOT_A_NUMBER:
        return java_double(NOT_NUMBERS[found])
    return found


def quoted(text: str) -> str:
    """Return a string as Jackson writes it: what takes two units of UTF-16 is escaped, too."""

    def one(found: re.Match[str]) -> str:
        if short := SHORT.get(found[0]):
            return f"\\{short}"
        units = found[0].encode("utf-16-be", "surrogatepass").hex().upper()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return f'"{ESCAPED.sub(one, text)}"'


def java_double(number: float) -> str:
    """Write a double as Java does, with the digits that it needs; NaN and infinity in quotes."""
    if number != number:
        return '"NaN"'
    if number in (float("inf"), float("-inf")):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    shown = "".join(map(str, digits))
    power = int(exponent) + len(shown) - 1
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{power}"
