"""A filter expression is cut into words, each with its position; an error names a position. Pure.

Text stands in double quotes, with the escapes of JSON, or in single quotes, where a backslash is
itself. A word ends where no more of it can follow: white space means nothing between words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from oncelog_cli.offset_range import parse_duration
from oncelog_cli.where.tree import EPOCH, Literal

TEXT_LENGTH_MAX = 4096
"""An expression has at most so many characters: longer ones are no longer written by people."""


class WhereError(ValueError):
    """An expression cannot be understood; ``position`` counts its characters from 0."""

    def __init__(self, reason: str, position: int) -> None:
        """Make the error; its text counts characters from 1, as people do."""
        super().__init__(f"at character {position + 1}: {reason}")
        self.reason = reason
        self.position = position


class WordKind(Enum):
    """A word is of this kind."""

    NAME = "a name"
    TEXT = "text"
    NUMBER = "a number"
    TIME = "a time"
    DURATION = "a duration"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of an expression has a kind, a text as it was written, and a beginning."""

    kind: WordKind
    text: str
    position: int
    value: Literal = ""
    """It is what text, numbers, times (ms since 1970) and durations (ms) stand for."""


_WORD = re.compile(
    r"""
    (?P<name>[^\W\d]\w*)
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<raw>'[^']*')
    | (?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}
        (?:[Tt][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2}(?:[.,][0-9]{1,6})?)?)?
        (?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?)?(?![\w:]))
    | (?P<duration>[0-9]+(?:ms|[dhms])(?:\w*))
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?!\w))
    | (?P<sign>==|!=|<=|>=|[<>()\[\].,+-])
    """,
    re.VERBOSE | re.DOTALL,
)
_DURATION_LENGTH_MAX = 40
_SPACE = re.compile(r"\s*")
_INSTEAD = {
    "=": "equality is written ==",
    "!": "write 'not', or != between two sides",
    "&": "write 'and'",
    "|": "write 'or'",
    '"': "this text has no end",
    "'": "this text has no end",
}


def words_of(text: str) -> Iterator[Word]:
    """Yield the words of an expression, and behind them one that is its end.

    :raises WhereError: it is too long, or something in it is no word.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise WhereError(
            f"the expression is longer than {TEXT_LENGTH_MAX} characters", TEXT_LENGTH_MAX
        )
    position = _after_space(text, 0)
    while position < len(text):
        found = _WORD.match(text, position)
        if found is None:
            raise WhereError(_reason(text, position), position)
        yield _word(found, position)
        position = _after_space(text, found.end())
    yield Word(WordKind.END, "", len(text))


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _reason(text: str, position: int) -> str:
    sign = text[position]
    if sign.isdecimal():
        return "this is no number, no time such as 2026-01-31T09:00:00Z, and no duration such as 5m"
    return _INSTEAD.get(sign, f"{sign!r} means nothing here")


def _word(found: re.Match[str], position: int) -> Word:
    text = found[0]
    match found.lastgroup:
        case "name":
            return Word(WordKind.NAME, text, position)
        case "quoted":
            return Word(WordKind.TEXT, text, position, _unquoted(text, position))
        case "raw":
            return Word(WordKind.TEXT, text, position, text[1:-1])
        case "time":
            return Word(WordKind.TIME, text, position, _time(text, position))
        case "duration":
            return Word(WordKind.DURATION, text, position, _duration(text, position))
        case "number":
            return Word(WordKind.NUMBER, text, position, _number(text, position))
        case _:
            return Word(WordKind.SIGN, text, position)


def _unquoted(text: str, position: int) -> str:
    try:
        value: str = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise WhereError(
            f"{text[error.pos : error.pos + 2]!r} is no escape;"
            " in single quotes a backslash is itself",
            position + error.pos,
        ) from None
    if any("\ud800" <= sign <= "\udfff" for sign in value) and "\\u" in text:
        raise WhereError("this text holds half of a surrogate pair: it is not Unicode", position)
    return value


def _time(text: str, position: int) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise WhereError(f"{text} is no time: {error}", position) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(milliseconds=1)


def _duration(text: str, position: int) -> int:
    duration_ms = parse_duration(text) if len(text) <= _DURATION_LENGTH_MAX else None
    if duration_ms is None:
        raise WhereError(f"{text} is no duration such as 1h30m: d, h, m, s, ms", position)
    return duration_ms


def _number(text: str, position: int) -> int | float:
    if text.isdecimal():
        return int(text)
    number = float(text)
    if number == float("inf"):
        raise WhereError(f"{text} is too large for a number", position)
    return number
