"""Trees of filter expressions and records are drawn here, and judged one record at a time.

The judge reads the rules of ``docs/filter-expressions.md`` in the simplest way: no columns, no
shortcuts, nothing decoded twice.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

from oncelog import Record
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
)

# Few words, so that records and conditions meet; some that JSON spells in more than one way.
TEXTS = ("", "a", "ab", "status", "failed", "fäil", 'q"q', "s/s", "x\\u0061", "line\nline", "1")
NAMES = ("a", "status", "b c", 'q"q', "ö", "")
PATTERNS = ("a", "^f", "l+e", "ä", "", "(?i)FAILED", r"\d", ".b")
NUMBERS_SEEN = (0, 1, -1, 2.5, 1e3, 2**63, 1.0)

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS_SEEN)
literals: st.SearchStrategy[Literal] = st.one_of(texts, numbers, st.booleans())
documents = st.recursive(
    st.one_of(st.none(), texts, numbers, st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def spelt(document: Any, plainly: bool) -> bytes:
    """Return a document as JSON: with ``\\u`` for what is not ASCII and for ``a``, or plainly."""
    if plainly:
        return json.dumps(document, ensure_ascii=False).encode()
    text = json.dumps(document)
    return re.sub(r"(?<!\\)a(?=[^\\]*$)", r"\\u0061", text).replace("/", "\\/").encode()


def is_json(data: bytes) -> bool:
    try:
        json.loads(data.decode())
    except ValueError:
        return False
    return True


encoded = st.builds(spelt, documents, st.booleans()).filter(is_json)
parts = st.one_of(
    st.none(), encoded, texts.map(str.encode), st.sampled_from([b"\xff", b"{", b"\\u0061"])
)
headers = st.lists(st.tuples(st.sampled_from(["trace", "b"]), parts), max_size=3).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> list[Record]:
    """Draw records of one partition, as a fetch would give them."""
    partition = draw(st.integers(0, 2))
    return [
        Record(
            "t",
            partition,
            offset,
            draw(st.integers(0, 3)) * 1000,
            draw(parts),
            draw(parts),
            draw(headers),
        )
        for offset in range(draw(st.integers(1, 6)))
    ]


paths = st.lists(st.one_of(st.sampled_from(NAMES), st.integers(0, 2)), max_size=3).map(tuple)
named_fields = st.one_of(
    st.builds(Field, st.sampled_from([Part.KEY, Part.VALUE]), st.just(""), paths),
    st.builds(Field, st.just(Part.HEADER), st.sampled_from(["trace", "b"])),
)
number_fields = st.sampled_from([Field(part) for part in Part if part in NUMBERS])
orders = st.sampled_from(
    [
        Operator.LESS,
        Operator.LESS_OR_EQUAL,
        Operator.GREATER,
        Operator.GREATER_OR_EQUAL,
    ]
)
conditions: st.SearchStrategy[Tree] = st.one_of(
    st.builds(Compare, st.just(Operator.EQUAL), named_fields, literals),
    st.builds(Compare, orders, named_fields, st.one_of(texts, numbers)),
    st.builds(
        Compare, st.one_of(orders, st.just(Operator.EQUAL)), number_fields, st.integers(0, 3000)
    ),
    st.builds(Compare, st.just(Operator.CONTAINS), named_fields, literals),
    st.builds(Compare, st.just(Operator.STARTS), named_fields, texts),
    st.builds(
        Compare, st.just(Operator.CONTAINS), st.just(Field(Part.HEADER)), st.sampled_from(NAMES)
    ),
    st.builds(
        Compare,
        st.one_of(orders, st.just(Operator.EQUAL)),
        st.one_of(named_fields, number_fields),
        st.one_of(named_fields, number_fields),
    ),
    st.builds(OneOf, named_fields, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(OneOf, number_fields, st.lists(numbers, min_size=1, max_size=3).map(tuple)),
    st.builds(Matches, named_fields, st.sampled_from(PATTERNS)),
    st.builds(IsNull, named_fields),
    st.builds(IsMissing, named_fields),
)
trees: st.SearchStrategy[Tree] = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(AllOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


# ------------------------------------------------------------------------------ the judge

NOTHING = object()


def holds(tree: Tree, record: Record) -> bool:
    """Return whether the condition holds for the record."""
    match tree:
        case Not(term):
            return not holds(term, record)
        case AllOf(terms):
            return all(holds(term, record) for term in terms)
        case AnyOf(terms):
            return any(holds(term, record) for term in terms)
        case Compare(Operator.CONTAINS, Field(Part.HEADER, ""), name):
            return any(key == name for key, _ in record.headers)
        case Compare(operator, left, right):
            rights = found(right, record) if isinstance(right, Field) else [right]
            return any(judged(operator, a, b) for a in found(left, record) for b in rights)
        case OneOf(field, choices):
            return any(judged(Operator.EQUAL, a, b) for a in found(field, record) for b in choices)
        case Matches(field, pattern):
            return any(
                re.search(pattern.encode(), a if isinstance(a, bytes) else a.encode()) is not None
                for a in found(field, record)
                if isinstance(a, str | bytes)
            )
        case IsNull(field):
            return all(a is None or a is NOTHING for a in found(field, record))
        case IsMissing(field):
            if field.path:
                return found(field, record) == [NOTHING]
            return found(field, record) in ([], [None]) and (
                field.part is not Part.HEADER or all(key != field.name for key, _ in record.headers)
            )


def found(field: Field, record: Record) -> list[Any]:
    """Return what stands in the field; a header may stand there more than once."""
    match field.part:
        case Part.OFFSET:
            return [record.offset]
        case Part.TIMESTAMP:
            return [record.timestamp]
        case Part.PARTITION:
            return [record.partition]
        case Part.SIZE:
            return [len(record.value or b"")]
        case Part.HEADER:
            return [data for key, data in record.headers if key == field.name]
    data = record.key if field.part is Part.KEY else record.value
    return [followed(document(data), field) if field.path else data]


def document(data: bytes | None) -> Any:
    try:
        return NOTHING if data is None else json.loads(data.decode())
    except ValueError:
        return NOTHING


def followed(thing: Any, field: Field) -> Any:
    for step in field.path:
        try:
            inside = isinstance(thing, dict if isinstance(step, str) else list)
            thing = thing[step] if inside else NOTHING
        except (KeyError, IndexError):
            return NOTHING
    return thing


def judged(operator: Operator, left: Any, right: Any) -> bool:
    """Return whether the operator holds between two values."""
    if operator is Operator.STARTS:
        return isinstance(left, str | bytes) and as_bytes(left).startswith(right.encode())
    if operator is Operator.CONTAINS:
        if isinstance(left, bytes) and not isinstance(right, str):
            left = document(left)
        if isinstance(left, list):
            return any(judged(Operator.EQUAL, item, right) for item in left)
        return (
            isinstance(left, str | bytes)
            and isinstance(right, str)
            and right.encode() in as_bytes(left)
        )
    return compared(operator, *brought_together(left, right))


def as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def brought_together(left: Any, right: Any) -> tuple[Any, Any]:
    texts = (str, bytes)
    if isinstance(left, texts) and isinstance(right, texts):
        return as_bytes(left), as_bytes(right)
    return (
        document(left) if isinstance(left, bytes) else left,
        document(right) if isinstance(right, bytes) else right,
    )


def compared(operator: Operator, left: Any, right: Any) -> bool:
    kinds = {kind_of(left), kind_of(right)}
    if len(kinds) != 1 or "other" in kinds:
        return False
    if operator is Operator.EQUAL:
        return bool(left == right)
    if kinds == {"truth"}:
        return False
    less, equal = left < right, left == right
    return bool(
        {
            Operator.LESS: less,
            Operator.LESS_OR_EQUAL: less or equal,
            Operator.GREATER: not less and not equal,
            Operator.GREATER_OR_EQUAL: not less,
        }[operator]
    )


def kind_of(thing: Any) -> str:
    if isinstance(thing, bool):
        return "truth"
    if isinstance(thing, int | float):
        return "number"
    return "text" if isinstance(thing, str | bytes) else "other"
