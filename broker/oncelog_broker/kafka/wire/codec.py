"""Messages of Kafka become bytes here and back, in any version that their schema has.

The wire is Kafka's: numbers are big-endian; text, bytes and arrays have their length before them,
of two or four bytes or, in flexible versions, as a varint of the length plus one (KIP-482). Fields
with tags stand at the end of their structure.

Rules
-----
* A length is believed only within the bytes that are there: before anything is built of an array,
  its items at their smallest must fit what is left.
* One message has at most ``ITEMS_MAX`` items in all its arrays: an item of one byte on the wire
  takes a hundred in memory.
* Tags that are not known are skipped, within their own length. What stands behind a message is not
  looked at, as Kafka does not either: librdkafka has left bytes there (Metadata, version 12).
* Records are never copied. When decoding, a :class:`~oncelog_protocol.schema.Span` names where in
  the frame they lie; when encoding it names so many of the next bytes of the payload.
* What does not hold raises :class:`~oncelog_protocol.errors.RemoteProtocolError` when decoding and
  :class:`~oncelog_protocol.errors.LocalProtocolError` when encoding, and nothing else.

Encoders and decoders are made once for each class and version, when it is first used. Fields of a
fixed size that follow each other are read and written by one call that runs in C.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeVar

from oncelog_broker.kafka.wire.declaration import KafkaMessage
from oncelog_broker.kafka.wire.plan import FieldPlan, StructPlan, plan_of
from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.schema import Span
from oncelog_protocol.types import Buffer

M = TypeVar("M", bound=KafkaMessage)

ITEMS_MAX: Final = limits.HEAD_ARRAYS_MAX
"""Items of all arrays of one message, as in one of ours."""

_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_VARINT_BYTES = 5

Budget = list[int]
"""It holds one number: how many items may still come."""
Read = Callable[[memoryview, int, list[Any], Budget], int]
"""It appends to the values what it reads, and returns the position after it."""
ReadOne = Callable[[memoryview, int, Budget], tuple[Any, int]]
Write = Callable[[Any, list[Any]], None]
"""It appends to the pieces what a value is on the wire: bytes, or a span that stands for
records."""


def decode(cls: type[M], version: int, data: memoryview, pos: int = 0) -> M:
    """Return the message that begins at ``pos`` in ``data``.

    :raises RemoteProtocolError: it does not hold.
    """
    read = _struct_reader(plan_of(cls, version))
    try:
        message, _ = read(data, pos, [ITEMS_MAX])
    except (IndexError, struct.error):
        raise RemoteProtocolError(f"{cls.__name__} v{version}: it is cut off") from None
    except UnicodeDecodeError:
        raise RemoteProtocolError(f"{cls.__name__} v{version}: text that is no UTF-8") from None
    decoded: M = message
    return decoded


def encode(message: KafkaMessage, version: int, payload: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the buffers that are ``message`` on the wire, those of the payload among them.

    :param payload: the records that the spans of the message name, in their order.
    :raises LocalProtocolError: a value that its field, or this version, cannot hold.
    """
    cls = message.__class__
    pieces: list[Any] = []
    try:
        _struct_writer(plan_of(cls, version))(message, pieces)
        if not payload:
            return [b"".join(pieces)]
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as exc:
        raise LocalProtocolError(f"{cls.__name__} v{version}: {exc}") from exc
    return list(_with_payload(pieces, payload))


def skip_tags(data: memoryview, pos: int) -> int:
    """Return the position after fields with tags, whatever they are.

    :raises RemoteProtocolError: they are longer than the frame.
    :raises IndexError: they are cut off.
    """
    return _tags_reader({})(data, pos, [], [0])


def _with_payload(pieces: list[Any], payload: Sequence[Buffer]) -> Iterator[Buffer]:
    parts = iter(payload)
    rest: Buffer = b""
    head: list[bytes] = []
    for piece in pieces:
        if type(piece) is not Span:
            head.append(piece)
            continue
        yield b"".join(head)
        head.clear()
        wanted = piece.length
        while wanted:
            part = rest or next(parts, None)
            if part is None:
                raise LocalProtocolError(f"records: {wanted} bytes of the payload are missing")
            if len(part) <= wanted:
                yield part
                wanted, rest = wanted - len(part), b""
            else:
                part = memoryview(part)
                yield part[:wanted]
                wanted, rest = 0, part[wanted:]
    if rest or any(map(len, parts)):
        raise LocalProtocolError("records: nothing accounts for the end of the payload")
    yield b"".join(head)


# ---------------------------------------------------------------------------------------- reading


def read_varint(data: memoryview, pos: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it.

    :raises RemoteProtocolError: it has more than five bytes.
    :raises IndexError: it is cut off.
    """
    byte = data[pos]
    if byte < 0x80:
        return byte, pos + 1
    value = byte & 0x7F
    for index in range(1, _VARINT_BYTES):
        byte = data[pos + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, pos + index + 1
    raise RemoteProtocolError("a varint of more than five bytes")


def _compact_length(data: memoryview, pos: int) -> tuple[int, int]:
    value, pos = read_varint(data, pos)
    return value - 1, pos


def _i16_length(data: memoryview, pos: int) -> tuple[int, int]:
    return _I16.unpack_from(data, pos)[0], pos + 2


def _i32_length(data: memoryview, pos: int) -> tuple[int, int]:
    return _I32.unpack_from(data, pos)[0], pos + 4


@cache
def _struct_reader(plan: StructPlan) -> ReadOne:
    steps: list[Read] = []
    tagged: dict[int, tuple[int, ReadOne]] = {}
    index = 0
    for run in plan.runs():
        first = run[0]
        if first.is_present and first.is_fixed and first.tag < 0:
            steps.append(_fixed_reader(struct.Struct(">" + "".join(f.format for f in run))))
        elif first.is_present and first.tag < 0:
            steps.append(_appending(_field_reader(first)))
        else:
            if first.is_present:
                tagged[first.tag] = (index, _field_reader(first))
            steps.append(_default_reader(first))
        index += len(run)
    if plan.flexible:
        steps.append(_tags_reader(tagged))
    cls = plan.cls

    def read(data: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
        values: list[Any] = []
        for step in steps:
            pos = step(data, pos, values, budget)
        return cls(*values), pos

    return read


def _fixed_reader(layout: struct.Struct) -> Read:
    unpack, size = layout.unpack_from, layout.size

    def read(data: memoryview, pos: int, values: list[Any], budget: Budget) -> int:
        values += unpack(data, pos)
        return pos + size

    return read


def _appending(read_one: ReadOne) -> Read:
    def read(data: memoryview, pos: int, values: list[Any], budget: Budget) -> int:
        value, pos = read_one(data, pos, budget)
        values.append(value)
        return pos

    return read


def _default_reader(field: FieldPlan) -> Read:
    make = field.make_default

    def read(data: memoryview, pos: int, values: list[Any], budget: Budget) -> int:
        values.append(make())
        return pos

    return read


def _tags_reader(tagged: dict[int, tuple[int, ReadOne]]) -> Read:
    def read(data: memoryview, pos: int, values: list[Any], budget: Budget) -> int:
        count = data[pos]
        if not count:
            return pos + 1
        count, pos = read_varint(data, pos)
        for _ in range(count):
            tag, pos = read_varint(data, pos)
            size, pos = read_varint(data, pos)
            end = pos + size
            if end > len(data):
                raise RemoteProtocolError(f"tag {tag}: {size} bytes, {len(data) - pos} are left")
            known = tagged.get(tag)
            if known is not None:
                index, read_one = known
                values[index], pos = read_one(data, pos, budget)
                if pos != end:
                    raise RemoteProtocolError(f"tag {tag}: it does not fill its {size} bytes")
            pos = end
        return pos

    return read


def _field_reader(field: FieldPlan) -> ReadOne:
    """Return what reads one field that is not of a fixed size, or has a tag."""
    if field.is_array:
        return _array_reader(field)
    if field.struct is not None:
        inner = _struct_reader(field.struct)
        return _nullable_struct_reader(inner) if field.nullable and field.tag < 0 else inner
    if field.is_fixed:
        layout = struct.Struct(">" + field.format)

        def read_fixed(data: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
            return layout.unpack_from(data, pos)[0], pos + layout.size

        return read_fixed
    return _blob_reader(field)


def _nullable_struct_reader(inner: ReadOne) -> ReadOne:
    def read(data: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
        if _I8.unpack_from(data, pos)[0] < 0:
            return None, pos + 1
        return inner(data, pos + 1, budget)

    return read


def _blob_reader(field: FieldPlan) -> ReadOne:
    """Return what reads text, bytes or the place of records."""
    read_length = _compact_length if field.flexible else _i32_length
    if field.kind == "string" and not field.flexible:
        read_length = _i16_length
    kind, nullable, label = field.kind, field.nullable, field.label

    def read(data: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
        length, pos = read_length(data, pos)
        if length < 0:
            if nullable and length == -1:
                return None, pos
            raise RemoteProtocolError(f"{label}: a length of {length}")
        end = pos + length
        if end > len(data):
            raise RemoteProtocolError(f"{label}: {length} bytes, {len(data) - pos} are left")
        if kind == "string":
            return str(data[pos:end], "utf-8"), end
        if kind == "bytes":
            return bytes(data[pos:end]), end
        return Span(pos, length), end

    return read


def _array_reader(field: FieldPlan) -> ReadOne:
    read_length = _compact_length if field.flexible else _i32_length
    item = field.item()
    smallest, nullable, label = item.bytes_min, field.nullable, field.label
    code = item.format if item.is_fixed else ""
    read_one = None if item.is_fixed else _field_reader(item)

    def read(data: memoryview, pos: int, budget: Budget) -> tuple[Any, int]:
        count, pos = read_length(data, pos)
        if count < 0:
            if nullable and count == -1:
                return None, pos
            raise RemoteProtocolError(f"{label}: {count} items")
        if count * smallest > len(data) - pos:
            raise RemoteProtocolError(f"{label}: {count} items, {len(data) - pos} bytes are left")
        budget[0] -= count
        if budget[0] < 0:
            raise RemoteProtocolError(f"{label}: a message of more than {ITEMS_MAX} items")
        if read_one is None:
            numbers = struct.unpack_from(f">{code * count}", data, pos)
            return list(numbers), pos + smallest * count
        items = []
        for _ in range(count):
            value, pos = read_one(data, pos, budget)
            items.append(value)
        return items, pos

    return read


# ---------------------------------------------------------------------------------------- writing


def write_varint(value: int) -> bytes:
    """Return ``value``, at least 0 and below 2**32, as an unsigned varint."""
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _compact(length: int) -> bytes:
    return write_varint(length + 1)


@cache
def _struct_writer(plan: StructPlan) -> Write:
    steps: list[Write] = []
    for run in plan.written():
        if run[0].is_fixed:
            steps.append(_fixed_writer(run))
        else:
            steps.append(_of_attribute(run[0], _field_writer(run[0])))
    if plan.flexible:
        steps.append(_tags_writer([f for f in plan.fields if f.is_present and f.tag >= 0]))
    left_out = [f for f in plan.fields if not f.is_present and not f.ignorable]
    is_default = _defaults_check(left_out)

    def write(message: Any, pieces: list[Any]) -> None:
        if not is_default(message):
            names = ", ".join(
                f.name for f in left_out if getattr(message, f.name) != f.make_default()
            )
            raise LocalProtocolError(f"{plan.cls.__name__}: this version does not have {names}")
        for step in steps:
            step(message, pieces)

    return write


def _defaults_check(fields: Sequence[FieldPlan]) -> Callable[[Any], bool]:
    """Return what tells whether all of these fields have their defaults."""
    if not fields:
        return lambda message: True
    get = attrgetter(*(field.name for field in fields))
    defaults = tuple(field.make_default() for field in fields)
    expected = defaults if len(fields) > 1 else defaults[0]
    return lambda message: bool(get(message) == expected)


def _fixed_writer(run: Sequence[FieldPlan]) -> Write:
    pack = struct.Struct(">" + "".join(field.format for field in run)).pack
    get = attrgetter(*(field.name for field in run))
    if len(run) == 1:
        return lambda message, pieces: pieces.append(pack(get(message)))
    return lambda message, pieces: pieces.append(pack(*get(message)))


def _of_attribute(field: FieldPlan, write: Write) -> Write:
    get = attrgetter(field.name)
    return lambda message, pieces: write(get(message), pieces)


def _tags_writer(tagged: list[FieldPlan]) -> Write:
    ways = [
        (f.tag, attrgetter(f.name), f.make_default(), _field_writer(f))
        for f in sorted(tagged, key=lambda f: f.tag)
    ]
    is_default = _defaults_check(tagged)

    def write(message: Any, pieces: list[Any]) -> None:
        if is_default(message):
            pieces.append(b"\0")
            return
        written: list[tuple[int, bytes]] = []
        for tag, get, default, write_one in ways:
            value = get(message)
            if value != default:
                inner: list[bytes] = []
                write_one(value, inner)
                written.append((tag, b"".join(inner)))
        pieces.append(write_varint(len(written)))
        for tag, data in written:
            pieces += (write_varint(tag), write_varint(len(data)), data)

    return write


def _field_writer(field: FieldPlan) -> Write:
    """Return what writes the value of one field."""
    if field.is_array:
        return _array_writer(field)
    if field.struct is not None:
        inner = _struct_writer(field.struct)
        return _nullable_struct_writer(inner) if field.nullable and field.tag < 0 else inner
    if field.is_fixed:
        pack = struct.Struct(">" + field.format).pack
        return lambda value, pieces: pieces.append(pack(value))
    return _blob_writer(field)


def _nullable_struct_writer(inner: Write) -> Write:
    def write(value: Any, pieces: list[Any]) -> None:
        pieces.append(b"\xff" if value is None else b"\x01")
        if value is not None:
            inner(value, pieces)

    return write


def _length_writer(field: FieldPlan) -> Callable[[int], bytes]:
    if field.flexible:
        return _compact
    return _I16.pack if field.kind == "string" and not field.is_array else _I32.pack


def _null(field: FieldPlan) -> bytes:
    """Return what None is on the wire.

    :raises LocalProtocolError: the field may not be None.
    """
    if not field.nullable:
        raise LocalProtocolError(f"{field.label}: it may not be None")
    return _length_writer(field)(-1)


def _blob_writer(field: FieldPlan) -> Write:
    length = _length_writer(field)
    kind = field.kind

    def write(value: Any, pieces: list[Any]) -> None:
        if value is None:
            pieces.append(_null(field))
        elif kind == "string":
            data = value.encode()
            pieces += (length(len(data)), data)
        elif kind == "bytes":
            pieces += (length(len(value)), value)
        else:
            pieces.append(length(value.length))
            if value.length:
                pieces.append(value)

    return write


def _array_writer(field: FieldPlan) -> Write:
    length = _length_writer(field)
    item = field.item()
    write_one = _field_writer(item)
    is_fixed = item.is_fixed
    code = item.format if is_fixed else ""

    def write(value: Any, pieces: list[Any]) -> None:
        if value is None:
            pieces.append(_null(field))
            return
        pieces.append(length(len(value)))
        if is_fixed:
            pieces.append(struct.pack(f">{code * len(value)}", *value))
            return
        for each in value:
            write_one(each, pieces)

    return write


__all__ = ["ITEMS_MAX", "decode", "encode", "read_varint", "skip_tags", "write_varint"]
