"""Messages as dataclasses: how a class becomes a positional msgpack array and back.

Rules
-----
* A message is a frozen-shape dataclass; each field's type is one of the aliases below, an enum-free
  scalar, another dataclass, ``list[T]`` of those, or ``T | None``.
* On the wire a message is an array of its fields, in order. A field added later says
  ``since=N`` (see :func:`since`) and is absent below that version; it must have a default.
* Decoding is strict: exact types (``True`` is not 1, 1.0 is not 1), ranges, lengths, UTF-8, and the
  exact number of fields of the version. Anything else raises :class:`RemoteProtocolError`;
  lengths are compared with ``limits`` before anything is built from them.

Decoders and encoders are compiled once per class and version into closures.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError


@dataclass(frozen=True, slots=True)
class IntRange:
    """Inclusive bounds of an integer field."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class MaxLength:
    """Most characters (str), bytes (bytes) or items (list) of a field."""

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


@dataclass(frozen=True, slots=True)
class Span:
    """A slice of the frame's payload: where record batches of one partition lie."""

    offset: int
    length: int


def since(version: int, default: Any = dataclasses.MISSING, factory: Any = None) -> Any:
    """A field that exists from ``version`` of its message on."""
    if factory is not None:
        return dataclasses.field(default_factory=factory, metadata={"since": version})
    return dataclasses.field(default=default, metadata={"since": version})


def encode(message: Any, version: int) -> Any:
    """``message`` as nested lists for msgpack.

    :raises LocalProtocolError: a field holds a value that its type does not allow.
    """
    try:
        return _encoder(type(message), version)(message)
    except (TypeError, AttributeError, ValueError) as exc:
        raise LocalProtocolError(f"{type(message).__name__}: {exc}") from exc


def decode(cls: type[M], body: Any, version: int) -> M:
    """The ``cls`` that ``body`` (as unpacked by msgpack) holds.

    :raises RemoteProtocolError: naming the field that does not hold.
    """
    return typing.cast(M, _decoder(cls, version)(body))


def _fields(cls: type, version: int) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return [
        (field, hints[field.name])
        for field in dataclasses.fields(cls)
        if field.metadata.get("since", 0) <= version
    ]


@lru_cache(maxsize=None)
def _decoder(cls: type, version: int) -> Decoder:
    label = cls.__name__
    plan = [(f.name, _value_decoder(h, version, f"{label}.{f.name}")) for f, h in _fields(cls, version)]
    decoders = [decoder for _, decoder in plan]
    count = len(plan)
    if cls is Span:
        return _decode_span
    names = [name for name, _ in plan]
    whole = names == [f.name for f in dataclasses.fields(cls)]

    def decode_message(value: Any) -> Any:
        if type(value) is not list or len(value) != count:
            raise RemoteProtocolError(f"{label} v{version}: not an array of {count} fields")
        parts = [decoder(item) for decoder, item in zip(decoders, value, strict=True)]
        return cls(*parts) if whole else cls(**dict(zip(names, parts, strict=True)))

    return decode_message


@lru_cache(maxsize=None)
def _encoder(cls: type, version: int) -> Encoder:
    if not dataclasses.is_dataclass(cls):
        raise LocalProtocolError(f"{cls.__name__} is not a message")
    if cls is Span:
        return _encode_span
    plan = [(f.name, _value_encoder(h, version)) for f, h in _fields(cls, version)]

    def encode_message(message: Any) -> list[Any]:
        return [
            getattr(message, name) if encoder is None else encoder(getattr(message, name))
            for name, encoder in plan
        ]

    return encode_message


def _decode_span(value: Any) -> Span:
    if type(value) is not list or len(value) != 2:
        raise RemoteProtocolError("span: not a pair")
    offset, length = value
    if type(offset) is not int or type(length) is not int or offset < 0 or length < 0:
        raise RemoteProtocolError("span: not a pair of sizes")
    return Span(offset, length)


def _encode_span(span: Span) -> list[int]:
    return [span.offset, span.length]


def _split(hint: Any) -> tuple[Any, list[Any], bool]:
    """(bare type, annotations, may be None)."""
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


def _value_decoder(hint: Any, version: int, label: str) -> Decoder:
    bare, notes, nullable = _split(hint)
    inner = _bare_decoder(bare, notes, version, label)
    if not nullable:
        return inner
    return lambda value: None if value is None else inner(value)


def _bare_decoder(bare: Any, notes: list[Any], version: int, label: str) -> Decoder:
    if typing.get_origin(bare) is list:
        return _list_decoder(bare, notes, version, label)
    if dataclasses.is_dataclass(bare):
        return _decoder(typing.cast(type, bare), version)
    if bare is int:
        bounds = next((n for n in notes if isinstance(n, IntRange)), Int64.__metadata__[0])
        return _int_decoder(bounds.low, bounds.high, label)
    if bare is bool:
        return _exact_decoder(bool, label)
    if bare is str:
        return _sized_decoder(str, _length(notes, limits.TEXT_CHARS_MAX), label)
    if bare is bytes:
        return _sized_decoder(bytes, _length(notes, limits.BLOB_BYTES_MAX), label)
    raise TypeError(f"{label}: {bare} cannot travel")


def _length(notes: list[Any], default: int) -> int:
    return next((n.count for n in notes if isinstance(n, MaxLength)), default)


def _list_decoder(bare: Any, notes: list[Any], version: int, label: str) -> Decoder:
    item = _value_decoder(typing.get_args(bare)[0], version, f"{label}[]")
    count_max = _length(notes, limits.ARRAY_COUNT_MAX)

    def decode_list(value: Any) -> list[Any]:
        if type(value) is not list:
            raise RemoteProtocolError(f"{label}: not an array")
        if len(value) > count_max:
            raise RemoteProtocolError(f"{label}: {len(value)} items, at most {count_max}")
        return [item(entry) for entry in value]

    return decode_list


def _int_decoder(low: int, high: int, label: str) -> Decoder:
    def decode_int(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise RemoteProtocolError(f"{label}: {_show(value)} is not an integer in [{low}, {high}]")
        return value

    return decode_int


def _exact_decoder(kind: type, label: str) -> Decoder:
    def decode_exact(value: Any) -> Any:
        if type(value) is not kind:
            raise RemoteProtocolError(f"{label}: {_show(value)} is not {kind.__name__}")
        return value

    return decode_exact


def _sized_decoder(kind: type, count_max: int, label: str) -> Decoder:
    def decode_sized(value: Any) -> Any:
        if type(value) is not kind:
            raise RemoteProtocolError(f"{label}: {_show(value)} is not {kind.__name__}")
        if len(value) > count_max:
            raise RemoteProtocolError(f"{label}: length {len(value)}, at most {count_max}")
        return value

    return decode_sized


def _value_encoder(hint: Any, version: int) -> Encoder | None:
    """None where the value travels as it is."""
    bare, _, nullable = _split(hint)
    if typing.get_origin(bare) is list:
        item = _value_encoder(typing.get_args(bare)[0], version)
        if item is None:
            return None
        each = item
        if nullable:
            return lambda values: None if values is None else [each(value) for value in values]
        return lambda values: [each(value) for value in values]
    if dataclasses.is_dataclass(bare):
        nested = _encoder(typing.cast(type, bare), version)
        if nullable:
            return lambda value: None if value is None else nested(value)
        return nested
    return None


def _show(value: Any) -> str:
    text = repr(value) if isinstance(value, (int, float, bool, type(None))) else type(value).__name__
    return text[:40]
