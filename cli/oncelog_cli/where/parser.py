"""A filter expression is parsed into a tree, or refused with the position of what is wrong. Pure.

::

    expression = conjunction, { "or", conjunction }
    conjunction = term, { "and", term }
    term = "not", term | "(", expression, ")" | condition
    condition = side, ( "==" | "!=" | "<" | "<=" | ">" | ">=" ), side
              | field, [ "not" ], "in", "(", literal, { ",", literal }, ")"
              | field, [ "not" ], "contains", literal
              | field, [ "not" ], ( "starts" | "matches" ), text
              | field, "is", [ "not" ], ( "null" | "missing" )
    side = field | literal
    field = ( "key" | "value" ), { ".", name | "[", ( text | index ), "]" }
          | "header", [ "[", text, "]" ]
          | "offset" | "timestamp" | "partition" | "size"
    literal = text | [ "-" ], number | "true" | "false" | duration
            | ( time | "now" ), { ( "+" | "-" ), duration }

Depth and length are bounded, so that neither parsing nor what is done with a tree can go too deep.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

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
    Step,
    Tree,
)
from oncelog_cli.where.words import WhereError, Word, WordKind, words_of

DEPTH_MAX = 32
"""How deep conditions may lie in each other, by parentheses and ``not``."""
STEPS_MAX = 32
"""How deep a field may lie in a JSON document."""
INDEX_MAX = 1_000_000_000

_TURNED = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
"""The same comparison with its sides changed over."""
_SIGNS = {"==", "!=", "<", "<=", ">", ">="}
_PARTS = [part.value for part in Part]
_NO_FIELDS = ("true", "false", "now", "null")
_VERBS = ("in", "contains", "starts", "matches", "is")


def parse_where(text: str, now_ms: int) -> Tree:
    """Parse a filter expression; ``now`` in it is ``now_ms``, milliseconds since 1970.

    :raises WhereError: it is none; the error has a reason, and a position in the text.
    """
    return _Parser(list(words_of(text)), now_ms).whole()


@dataclass(frozen=True, slots=True)
class _Side:
    """A side of a comparison has the words that it begins with, which errors name."""

    what: Field | Literal
    word: Word


@dataclass(slots=True)
class _Parser:
    words: list[Word]
    now_ms: int
    place: int = 0
    depth: int = 0

    # -------------------------------------------------------------------------- words

    @property
    def word(self) -> Word:
        return self.words[self.place]

    def take(self) -> Word:
        word = self.word
        self.place += 1
        return word

    def sees(self, *texts: str) -> bool:
        """Return whether the next word is a name or a sign, and one of these."""
        return self.word.kind in (WordKind.NAME, WordKind.SIGN) and self.word.text in texts

    def takes(self, *texts: str) -> bool:
        found = self.sees(*texts)
        self.place += found
        return found

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            raise self.unexpected(f"{sign!r}")

    def unexpected(self, wanted: str) -> WhereError:
        word = self.word
        found = "the end" if word.kind is WordKind.END else word.text
        return WhereError(f"expected {wanted}, not {found}", word.position)

    # -------------------------------------------------------------------------- conditions

    def whole(self) -> Tree:
        if self.word.kind is WordKind.END:
            raise WhereError("there is no condition, such as value contains 'refund'", 0)
        tree = self.expression()
        last = self.take()
        if last.kind is not WordKind.END:
            near = difflib.get_close_matches(last.text.lower(), ("and", "or"), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise WhereError(
                f"expected 'and', 'or' or the end, not {last.text}{hint}", last.position
            )
        return tree

    def expression(self) -> Tree:
        terms = [self.conjunction()]
        while self.takes("or"):
            terms.append(self.conjunction())
        return terms[0] if len(terms) == 1 else AnyOf(tuple(terms))

    def conjunction(self) -> Tree:
        terms = [self.term()]
        while self.takes("and"):
            terms.append(self.term())
        return terms[0] if len(terms) == 1 else AllOf(tuple(terms))

    def term(self) -> Tree:
        if not self.sees("not", "("):
            return self.condition()
        opening = self.take()
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise WhereError(f"conditions lie more than {DEPTH_MAX} deep", opening.position)
        if opening.text == "not":
            tree: Tree = Not(self.term())
        else:
            tree = self.expression()
            self.expect(")")
        self.depth -= 1
        return tree

    def condition(self) -> Tree:
        left = self.side()
        verb = self.word
        if verb.kind is WordKind.SIGN and verb.text in _SIGNS:
            self.take()
            return _comparison(left, verb, self.side())
        if not isinstance(left.what, Field):
            raise self.unexpected("a comparison such as ==")
        turned = self.takes("not")
        if left.what.part in NUMBERS and self.sees("is", "contains", "starts", "matches"):
            raise WhereError(
                f"{left.what.part} is a number: compare it by == != < <= > >= in", verb.position
            )
        if left.what == _ALL_HEADERS and not self.sees("contains"):
            raise WhereError(_WHICH_HEADER, left.word.position)
        if not turned and self.takes("is"):
            return self.nothing(left.what)
        tree = self.wordy(left.what)
        return Not(tree) if turned else tree

    def nothing(self, field: Field) -> Tree:
        turned = self.takes("not")
        tree: Tree
        if self.takes("null"):
            tree = IsNull(field)
        elif self.takes("missing"):
            tree = IsMissing(field)
        else:
            raise self.unexpected("'null' or 'missing'")
        return Not(tree) if turned else tree

    def wordy(self, field: Field) -> Tree:
        """Return the condition whose verb is the next word."""
        verb = self.word
        if self.takes("in"):
            return OneOf(field, self.literals(field))
        if self.takes("contains"):
            if field == _ALL_HEADERS:
                return Compare(Operator.CONTAINS, field, self.text("the name of a header"))
            return Compare(Operator.CONTAINS, field, self.literal())
        if self.takes("starts"):
            return Compare(Operator.STARTS, field, self.text("text"))
        if self.takes("matches"):
            return Matches(field, self.pattern())
        near = difflib.get_close_matches(verb.text.lower(), _VERBS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        found = "the end" if verb.kind is WordKind.END else verb.text
        raise WhereError(
            f"expected a comparison: == != < <= > >= in contains starts matches is, not {found}"
            + hint,
            verb.position,
        )

    # -------------------------------------------------------------------------- sides

    def side(self) -> _Side:
        word = self.word
        if word.kind is WordKind.NAME and word.text not in _NO_FIELDS:
            return _Side(self.field(), word)
        return _Side(self.literal(), word)

    def field(self) -> Field:
        word = self.take()
        if word.text not in _PARTS:
            near = difflib.get_close_matches(word.text.lower(), [*_PARTS, "not"], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_PARTS)}"
            raise WhereError(f"{word.text!r} is not known; {hint}", word.position)
        part = Part(word.text)
        if part is Part.HEADER:
            return Field(part, self.header_name())
        path: list[Step] = []
        while self.sees(".", "["):
            opening = self.word
            if part in NUMBERS:
                raise WhereError(f"{part} is a number: there is nothing in it", opening.position)
            path.append(self.step())
            if len(path) > STEPS_MAX:
                raise WhereError(f"a path has more than {STEPS_MAX} steps", opening.position)
        return Field(part, path=tuple(path))

    def header_name(self) -> str:
        if self.sees("."):
            raise WhereError('a header is written header["NAME"]', self.word.position)
        if not self.takes("["):
            return ""
        word = self.word
        name = self.text("the name of a header, in quotes")
        if not name:
            raise WhereError("a header has a name", word.position)
        self.expect("]")
        return name

    def step(self) -> Step:
        if self.take().text == ".":
            if self.word.kind is not WordKind.NAME:
                raise self.unexpected('a name; other names are written in brackets: value["a b"]')
            return self.take().text
        word = self.word
        if word.kind is WordKind.TEXT:
            step: Step = self.text("text")
        elif word.kind is WordKind.NUMBER and type(word.value) is int and word.value <= INDEX_MAX:
            self.take()
            step = word.value
        else:
            raise self.unexpected("a name in quotes, or the index of an element")
        self.expect("]")
        return step

    def text(self, wanted: str) -> str:
        if self.word.kind is not WordKind.TEXT:
            raise self.unexpected(
                wanted if self.word.kind is WordKind.END else f"{wanted}, in quotes"
            )
        return str(self.take().value)

    def pattern(self) -> str:
        word = self.word
        text = self.text("a regular expression")
        try:
            compile_pattern(text)
        except ValueError as error:
            raise WhereError(str(error), word.position) from None
        return text

    def literals(self, field: Field) -> tuple[Literal, ...]:
        self.expect("(")
        found = []
        while True:
            word = self.word
            literal = self.literal()
            _check_numbers(field, literal, word)
            found.append(literal)
            if not self.takes(","):
                break
        self.expect(")")
        return tuple(found)

    def literal(self) -> Literal:
        word = self.word
        if self.takes("true", "false"):
            return word.text == "true"
        if word.kind is WordKind.TIME or self.sees("now"):
            return self.moment()
        if word.kind in (WordKind.TEXT, WordKind.NUMBER, WordKind.DURATION):
            return self.take().value
        if self.sees("-") and self.words[self.place + 1].kind is WordKind.NUMBER:
            self.take()
            number = self.take().value
            assert isinstance(number, int | float)
            return -number
        if self.sees("null"):
            raise WhereError("write 'is null', or 'is not null'", word.position)
        raise self.unexpected("text in quotes, a number, a time, true or false")

    def moment(self) -> int:
        word = self.take()
        moment = self.now_ms if word.text == "now" else word.value
        assert isinstance(moment, int)
        while self.sees("+", "-"):
            sign = self.take()
            if self.word.kind is not WordKind.DURATION:
                raise self.unexpected("a duration such as 5m or 1h30m")
            duration = self.take().value
            assert isinstance(duration, int)
            moment += duration if sign.text == "+" else -duration
        return moment


_ALL_HEADERS = Field(Part.HEADER)
_WHICH_HEADER = "which header? Write header[\"NAME\"], or header contains 'NAME'"


def _comparison(left: _Side, verb: Word, right: _Side) -> Tree:
    """Return the comparison; a literal comes to its right side.

    :raises WhereError: it could never hold, or always does.
    """
    for side in (left, right):
        if side.what == _ALL_HEADERS:
            raise WhereError(_WHICH_HEADER, side.word.position)
    differs = verb.text == "!="
    operator = Operator.EQUAL if differs else Operator(verb.text)
    if not isinstance(left.what, Field):
        first, left, right, operator = left.word, right, left, _TURNED[operator]
        if not isinstance(left.what, Field):
            raise WhereError("one of the two sides must be a field of the record", first.position)
    if not isinstance(right.what, Field):
        _check_numbers(left.what, right.what, right.word)
        if isinstance(right.what, bool) and operator is not Operator.EQUAL:
            raise WhereError(f"{right.word.text} is not less or more", right.word.position)
    tree = Compare(operator, left.what, right.what)
    return Not(tree) if differs else tree


def _check_numbers(field: Field, literal: Literal, word: Word) -> None:
    """Check that a number is compared with what can be equal to it.

    :raises WhereError: it is not.
    """
    if field.part not in NUMBERS:
        return
    if isinstance(literal, bool | str):
        hint = "; a time is written without quotes" if field.part is Part.TIMESTAMP else ""
        raise WhereError(f"{field.part} is a number, and {word.text} is none{hint}", word.position)
    if field.part is Part.TIMESTAMP and word.kind is WordKind.DURATION:
        raise WhereError(
            f"{word.text} is a duration; a time is written now - {word.text}", word.position
        )
