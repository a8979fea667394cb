"""Messages are dataclasses, and become positional msgpack arrays here and back.

Rules
-----
* A message is a class under :func:`message`: a dataclass of frozen shape. Each field's type is one
  of the aliases below, an enum-free scalar, another dataclass, ``list[T]`` of those, or
  ``T | None``.
* On the wire a message is an array of its fields, in order. A field added later says
  ``since=N`` (see :func:`since`) and is absent below that version; it must have a default.
* Decoding is strict: exact types (``True`` is not 1, 1.0 is not 1), ranges, lengths, UTF-8, and the
  exact number of fields of the version. Anything else raises :class:`RemoteProtocolError`;
  lengths are compared with ``limits`` before anything is built from them.

* Encoding checks the same things, so that a mistake is noticed where it is made. It forgives
  what loses nothing: an ``IntEnum`` for an int, a tuple for a list, a bytearray for bytes.

Decoders and encoders are compiled once per class and version. The common case is checked in a few
calls that run in C (all types of a message at once); only a value that fails is looked at field by
field, to say which one it was.

The tuple of types is written ``(*map(type, values),)``. CPython makes ``tuple(map(type, values))``
larger than it must be and cuts it, which is slower; and it keeps 2,000 such tuples of each length,
which nothing takes up again.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from oncelog_protocol.packing import Packed, pack


@dataclass(frozen=True, slots=True)
class IntRange:
    """It holds the inclusive bounds of an integer field."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class MaxLength:
    """It bounds the characters (str), bytes (bytes) or items (list) of a field."""

    count: int


Int8 = Annotated[int, IntRange(-(2**7), 2**7 - 1)]
Int16 = Annotated[int, IntRange(-(2**15), 2**15 - 1)]
Int32 = Annotated[int, IntRange(-(2**31), 2**31 - 1)]
Int64 = Annotated[int, IntRange(-(2**63), 2**63 - 1)]
Name = Annotated[str, MaxLength(limits.NAME_CHARS_MAX)]
Text = Annotated[str, MaxLength(limits.TEXT_CHARS_MAX)]
Blob = Annotated[bytes, MaxLength(limits.BLOB_BYTES_MAX)]

Decoder = Callable[[Any], Any]
Encoder = Callable[[Any], Any]
M = TypeVar("M")

_VERSION_MAX = 2**15 - 1
_EXACT_FLOAT_MAX = 2**53
"""Every integer up to it is a float too."""


@dataclass(frozen=True, slots=True)
class Span:
    """It is a slice of the frame's payload: where record batches of one partition lie."""

    offset: int
    length: int

    def of(self, payload: memoryview) -> memoryview:
        """Return the bytes that this names in the payload of its own frame."""
        return payload[self.offset : self.offset + self.length]


class Shared(list[M]):
    """It is a list that is sent in many messages: it is encoded once for each version. It must not
    change after it was sent first."""

    __slots__ = ("_packed",)

    def __init__(self, items: Iterable[M] = ()) -> None:
        super().__init__(items)
        self._packed: dict[tuple[str, int], Packed] = {}

    def packed(self, label: str, version: int, encode_list: Encoder) -> Packed:
        """Return it as msgpack."""
        known = self._packed.get((label, version))
        if known is None:
            known = self._packed[label, version] = Packed(pack(encode_list(list(self))))
        return known


def since(version: int, default: Any = dataclasses.MISSING, factory: Any = None) -> Any:
    """Declare a field that exists from ``version`` of its message on."""
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata={"since": version})
    return dataclasses.field(default=default, metadata={"since": version})


@typing.dataclass_transform(field_specifiers=(dataclasses.field, since))
def message(cls: type[M]) -> type[M]:
    """Make ``cls`` the dataclass of a message, with slots.

    All messages share one ``__repr__`` and one ``__eq__``. Those that :func:`dataclasses.dataclass`
    would generate for each class take 0.6 MB of every process that imports the messages.
    """
    cls.__repr__ = _repr  # type: ignore[method-assign]
    cls.__eq__ = _eq  # type: ignore[method-assign]
    cls.__hash__ = None  # type: ignore[assignment]
    return dataclass(slots=True, repr=False, eq=False)(cls)


def _repr(self: Any) -> str:
    """Return the call that makes such a message, without the fields that are not to be shown."""
    shown = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    """Return True for a message of the same class with equal fields."""
    if other.__class__ is not self.__class__:
        return NotImplemented
    names = self.__match_args__
    return [getattr(self, n) for n in names] == [getattr(other, n) for n in names]


def encode(message: Any, version: int) -> Any:
    """Return ``message`` as nested lists for msgpack.

    :raises LocalProtocolError: naming the field that holds a value which its type does not allow.
    """
    return _encoder(message.__class__, version)(message)


def decode(cls: type[M], body: Any, version: int) -> M:
    """Return the ``cls`` that ``body`` (as unpacked by msgpack) holds.

    :raises RemoteProtocolError: naming the field that does not hold.
    """
    of_class: Any = cls
    return typing.cast(M, _decoder(of_class, version)(body))


def span_fault(message: Any, payload_bytes: int) -> str:
    """Return what is wrong with the spans of ``message`` in a payload of that size; "" when all
    hold.

    Spans that are not empty follow each other without overlap and without a gap, from the first
    byte of the payload to its last. So no two partitions share bytes which a broker stamps in
    place, and a frame whose length swallows the next frame, or that carries bytes for nobody, is
    refused.
    """
    found: Iterable[Any] = (message,)
    path = _span_path(message.__class__)
    for get, is_list in path:
        found = map(get, found)
        if is_list:
            found = itertools.chain.from_iterable(found)
    end = 0
    for span in found if path else ():
        length = span.length
        if length:
            if span.offset < end:
                return f"span: {span.offset} lies in the one before, which ends at {end}"
            if span.offset > end:
                return f"span: nothing accounts for the bytes from {end} to {span.offset}"
            end = span.offset + length
        if span.offset + length > payload_bytes:
            return f"span: {span.offset}+{length} in a payload of {payload_bytes} bytes"
    if end < payload_bytes:
        return f"span: nothing accounts for the last {payload_bytes - end} bytes of the payload"
    return ""


@cache
def _span_path(cls: type) -> tuple[tuple[Callable[[Any], Any], bool], ...]:
    """Return the way from a message to its spans: (attribute, whether that is a list) by level.
    Empty when it has none."""
    paths: list[tuple[tuple[Callable[[Any], Any], bool], ...]] = []
    for field, hint in _fields(cls, _VERSION_MAX) if dataclasses.is_dataclass(cls) else ():
        rule = _rule(hint, f"{cls.__name__}.{field.name}")
        kind = rule.kind if rule.item is None else rule.item.kind
        below = () if kind is Span else _span_path(typing.cast(Any, kind))
        if kind is Span or below:
            if rule.nullable:
                raise TypeError(f"{rule.label}: what holds spans is never nil")
            paths.append(((operator.attrgetter(field.name), rule.item is not None), *below))
    if len(paths) > 1:
        raise TypeError(f"{cls.__name__}: spans in two places, so which comes first is not said")
    return paths[0] if paths else ()


def _fields(cls: type, version: int) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return [
        (field, hints[field.name])
        for field in dataclasses.fields(cls)
        if field.metadata.get("since", 0) <= version
    ]


@dataclass(frozen=True, slots=True)
class _Rule:
    """It says what one value may be. ``kind`` is int, bool, float, str, bytes, list, or a message
    class; ``low`` and ``high`` bound an integer, or the length of anything else; ``item`` rules the
    items of a list."""

    label: str
    kind: type
    nullable: bool
    low: int
    high: int
    item: _Rule | None = None

    @property
    def is_message(self) -> bool:
        return dataclasses.is_dataclass(self.kind)

    @property
    def is_bounded(self) -> bool:
        return self.kind in (str, bytes, list)


_LENGTHS = {str: limits.TEXT_CHARS_MAX, bytes: limits.BLOB_BYTES_MAX, list: limits.ARRAY_COUNT_MAX}


def _rule(hint: Any, label: str) -> _Rule:
    bare, notes, nullable = _split(hint)
    if typing.get_origin(bare) is list:
        item = _rule(typing.get_args(bare)[0], f"{label}[]")
        high = _length(notes, limits.ARRAY_COUNT_MAX)
        return _Rule(label, list, nullable, 0, high, item)
    if bare is int:
        bounds = next((n for n in notes if isinstance(n, IntRange)), IntRange(-(2**63), 2**63 - 1))
        return _Rule(label, int, nullable, bounds.low, bounds.high)
    if bare is bool or bare is float or dataclasses.is_dataclass(bare):
        return _Rule(label, typing.cast(type, bare), nullable, 0, 0)
    if bare is str or bare is bytes:
        return _Rule(label, bare, nullable, 0, _length(notes, _LENGTHS[bare]))
    raise TypeError(f"{label}: {bare} cannot travel")


def _split(hint: Any) -> tuple[Any, list[Any], bool]:
    """Return (bare type, annotations, may be None)."""
    notes: list[Any] = []
    nullable = False
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = [a for a in typing.get_args(hint) if a is not type(None)]
        if len(inner) != 1:
            raise TypeError(f"only T | None is a union on the wire: {hint}")
        nullable, hint = True, inner[0]
    if typing.get_origin(hint) is Annotated:
        hint, *notes = typing.get_args(hint)
    return hint, notes, nullable


def _length(notes: list[Any], default: int) -> int:
    return next((n.count for n in notes if isinstance(n, MaxLength)), default)


class _ClassPlan:
    """It has the rules of one class at one version, sorted by how they are checked.

    Plain fields are checked by ``kinds`` (the exact types of all fields at once), ``bounds`` and
    ``lengths``; ``others`` (lists, messages, and what may be nil) by a function each.
    """

    def __init__(self, cls: type, version: int, *, decoding: bool) -> None:
        self.cls = cls
        self.label = f"{cls.__name__} v{version}"
        fields = _fields(cls, version)
        self.names = [field.name for field, _ in fields]
        self.rules = [_rule(hint, f"{cls.__name__}.{field.name}") for field, hint in fields]
        self.is_whole = self.names == [field.name for field in dataclasses.fields(cls)]
        choices: list[tuple[type, ...]] = []
        self.bounds: list[tuple[int, int, int]] = []
        self.lengths: list[tuple[int, int]] = []
        self.others: list[tuple[int, Callable[[Any], Any]]] = []
        for index, rule in enumerate(self.rules):
            kind = list if decoding and rule.is_message else rule.kind
            kinds = (kind, Shared) if kind is list and not decoding else (kind,)
            choices.append((*kinds, type(None)) if rule.nullable else kinds)
            if rule.nullable or rule.is_message or rule.kind is list:
                make = _value_decoder if decoding else _value_encoder
                self.others.append((index, make(rule, version)))
            elif rule.kind is int:
                self.bounds.append((index, rule.low, rule.high))
            elif rule.is_bounded:
                self.lengths.append((index, rule.high))
        self.kinds = frozenset(itertools.product(*choices))


@cache
def _decoder(cls: type, version: int) -> Decoder:
    if cls is Span:
        return _decode_span
    plan = _ClassPlan(cls, version, decoding=True)
    kinds, bounds, lengths, others = plan.kinds, plan.bounds, plan.lengths, plan.others
    names, is_whole = plan.names, plan.is_whole

    def decode_message(value: Any) -> Any:
        if type(value) is not list or (*map(type, value),) not in kinds:
            raise RemoteProtocolError(_explain(plan, value))
        for index, low, high in bounds:
            if not low <= value[index] <= high:
                raise RemoteProtocolError(_explain(plan, value))
        for index, high in lengths:
            if len(value[index]) > high:
                raise RemoteProtocolError(_explain(plan, value))
        if others:
            value = value.copy()
            for index, decode_value in others:
                if value[index] is not None:
                    value[index] = decode_value(value[index])
        return cls(*value) if is_whole else cls(**dict(zip(names, value, strict=True)))

    return decode_message


@cache
def _encoder(cls: type, version: int) -> Encoder:
    if not dataclasses.is_dataclass(cls):
        raise LocalProtocolError(f"{cls.__name__} is not a message")
    if cls is Span:
        return _encode_span
    plan = _ClassPlan(cls, version, decoding=False)
    kinds, bounds, lengths, others = plan.kinds, plan.bounds, plan.lengths, plan.others
    names = plan.names
    get = operator.attrgetter(*names) if len(names) > 1 else None

    def encode_message(message: Any) -> list[Any]:
        values = [*get(message)] if get is not None else [getattr(message, n) for n in names]
        if (*map(type, values),) not in kinds:
            values = [
                _forgiven(value, rule) for value, rule in zip(values, plan.rules, strict=True)
            ]
            if (*map(type, values),) not in kinds:
                raise LocalProtocolError(_explain(plan, values))
        for index, low, high in bounds:
            if not low <= values[index] <= high:
                raise LocalProtocolError(_explain(plan, values))
        for index, high in lengths:
            if len(values[index]) > high:
                raise LocalProtocolError(_explain(plan, values))
        for index, encode_value in others:
            if values[index] is not None:
                values[index] = encode_value(values[index])
        return values

    return encode_message


def _decode_span(value: Any) -> Span:
    if type(value) is not list or len(value) != 2:
        raise RemoteProtocolError("span: not a pair")
    offset, length = value
    if type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
        raise RemoteProtocolError("span: not a pair of sizes")
    return Span(offset, length)


def _encode_span(span: Span) -> list[int]:
    offset, length = span.offset, span.length
    if type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
        raise LocalProtocolError("span: not a pair of sizes")
    return [offset, length]


def _value_decoder(rule: _Rule, version: int) -> Decoder:
    """Return the decoder for a value that is not None."""
    if rule.is_message:
        return _decoder(typing.cast(Any, rule.kind), version)
    if rule.item is None:
        return _scalar_checker(rule, RemoteProtocolError)
    if rule.item.kind is int and not rule.item.nullable:
        return _int_list_checker(rule, rule.item, RemoteProtocolError)
    inner = _value_decoder(rule.item, version)
    nullable, high, label = rule.item.nullable, rule.high, rule.label

    def decode_list(value: Any) -> list[Any]:
        if type(value) is not list:
            raise RemoteProtocolError(f"{label}: not an array")
        if len(value) > high:
            raise RemoteProtocolError(f"{label}: {len(value)} items, at most {high}")
        if nullable:
            return [None if item is None else inner(item) for item in value]
        return [inner(item) for item in value]

    return decode_list


def _value_encoder(rule: _Rule, version: int) -> Encoder:
    """Return the encoder for a value that is not None."""
    if rule.is_message:
        return _encoder(typing.cast(Any, rule.kind), version)
    if rule.item is None:
        return _scalar_checker(rule, LocalProtocolError)
    if rule.item.kind is int and not rule.item.nullable:
        return _int_list_checker(rule, rule.item, LocalProtocolError)
    inner, item = _value_encoder(rule.item, version), rule.item
    kind, high, label = item.kind, rule.high, rule.label

    def encode_list(value: Any) -> list[Any] | Packed:
        if type(value) is Shared:
            return value.packed(label, version, encode_list)
        if type(value) is not list and type(value) is not tuple:
            raise LocalProtocolError(f"{label}: {type(value).__name__} is not list")
        if len(value) > high:
            raise LocalProtocolError(f"{label}: {len(value)} items, at most {high}")
        encoded = []
        for entry in value:
            if type(entry) is not kind:
                entry = _forgiven(entry, item)
                if type(entry) is not kind and not (entry is None and item.nullable):
                    raise LocalProtocolError(f"{item.label}: {_show(entry)} is not {kind.__name__}")
            encoded.append(None if entry is None else inner(entry))
        return encoded

    return encode_list


def _scalar_checker(rule: _Rule, error: type[ProtocolError]) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        fault = _fault(rule, value)
        if fault:
            raise error(fault)
        return value

    return check


def _int_list_checker(
    rule: _Rule, item: _Rule, error: type[ProtocolError]
) -> Callable[[Any], list[int]]:
    """Return the checker for replicas, in-sync replicas, partition numbers: most lists on the wire,
    and mostly short."""
    label, count_max, low, high = rule.label, rule.high, item.low, item.high
    forgives = error is LocalProtocolError

    def check(value: Any) -> list[int]:
        if type(value) is not list:
            if not forgives or type(value) is not tuple:
                raise error(f"{label}: not an array")
            value = list(value)
        if len(value) > count_max:
            raise error(f"{label}: {len(value)} items, at most {count_max}")
        for entry in value:
            if type(entry) is not int or not low <= entry <= high:
                if forgives and type(entry) is not int and type(_forgiven(entry, item)) is int:
                    return check([_forgiven(other, item) for other in value])
                raise error(_fault(item, entry))
        checked: list[int] = value
        return checked

    return check


def _forgiven(value: Any, rule: _Rule) -> Any:
    """Return ``value`` in the exact type of ``rule`` where that loses nothing, else as it is."""
    kind = rule.kind
    if type(value) is kind or value is None or isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int):
        return int(value)
    if kind is float and isinstance(value, int) and abs(value) <= _EXACT_FLOAT_MAX:
        return float(value)
    if kind is str and isinstance(value, str):
        return str.__str__(value)
    if kind is bytes and isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if kind is list and isinstance(value, tuple):
        return list(value)
    return value


def _fault(rule: _Rule, value: Any) -> str:
    """Return what is wrong with ``value``, not looking inside lists and messages; "" if nothing
    is."""
    if value is None and rule.nullable:
        return ""
    kind: Any = rule.kind
    if type(value) is not kind and not (rule.is_message and type(value) is list):
        name = f"an integer in [{rule.low}, {rule.high}]" if kind is int else kind.__name__
        return f"{rule.label}: {_show(value)} is not {name}"
    if kind is int and not rule.low <= value <= rule.high:
        return f"{rule.label}: {value} is not an integer in [{rule.low}, {rule.high}]"
    if rule.is_bounded and len(value) > rule.high:
        return f"{rule.label}: length {len(value)}, at most {rule.high}"
    return ""


def _explain(plan: _ClassPlan, values: Any) -> str:
    """Return the first fault of a message that failed the checks."""
    count = len(plan.rules)
    if type(values) is not list or len(values) != count:
        return f"{plan.label}: not an array of {count} fields"
    faults = (_fault(rule, value) for rule, value in zip(plan.rules, values, strict=True))
    return next(filter(None, faults), f"{plan.label}: fields do not hold")


def _show(value: Any) -> str:
    scalar = isinstance(value, (int, float, bool, type(None)))
    return repr(value)[:40] if scalar else type(value).__name__
