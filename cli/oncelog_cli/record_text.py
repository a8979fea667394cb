"""Records are written as JSON lines, which can be produced again, and by format strings. Pure.

A JSON line is one object: ``topic``, ``partition``, ``offset``, ``timestamp`` (milliseconds since
1970), ``key``, ``value``, ``headers`` (a list of ``{"key", "value"}``, in order, names may repeat).
Bytes that are UTF-8 are a string, other bytes ``{"base64": "..."}``, none at all ``null``: the
three cannot be mistaken for each other, so that reading and writing is exact.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from oncelog_cli.documents.answer import fields_of
from oncelog_cli.render import human_time

if TYPE_CHECKING:
    from oncelog import Record
    from oncelog.consumer.markers import TransactionMarker

BASE64 = "base64"
"""The one key of an object that stands for bytes that are not text."""

Headers = tuple[tuple[str, bytes | None], ...]
RecordFormat = Callable[["Record"], bytes]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

FORMAT_HELP = (
    "%t topic, %p partition, %o offset, %T timestamp in ms, %d as a date, %k key, %v value, "
    "%K and %S their sizes in bytes (-1: none), %h headers, %n newline, %% a percent sign; "
    "%k{hex}, %v{base64}; \\n, \\t, \\0 and \\xHH as in C"
)
_PIECES = re.compile(
    r"%(?P<verb>.?)(?:\{(?P<coding>hex|base64)\})?|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))",
    re.DOTALL,
)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


class InputRecord(NamedTuple):
    """A record is to be sent; None stands for what the producer chooses, or for nothing."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


# ------------------------------------------------------------------------------ JSON


def to_json_value(data: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as a JSON value."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(data).decode()}


def from_json_value(value: Any, name: str) -> bytes | None:
    """Return the bytes that a JSON value stands for.

    :raises ValueError: it stands for none; the text names ``name`` and what is allowed.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} holds half of a surrogate pair: not Unicode text") from None
    if isinstance(value, Mapping) and list(value) == [BASE64] and isinstance(value[BASE64], str):
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"{name} is not base64: {error}") from None
    raise ValueError(f'{name} must be text, null or {{"base64": "..."}}; write other JSON as text')


def json_line(record: Record) -> bytes:
    """Return one record as a line of JSON."""
    headers = [{"key": name, "value": to_json_value(value)} for name, value in record.headers]
    key, value = to_json_value(record.key), to_json_value(record.value)
    return _line(record, {"key": key, "value": value, "headers": headers})


def input_line(record: InputRecord) -> bytes:
    """Return a record that is to be sent as a line of JSON, which :func:`parse_json_line` reads."""
    headers = [{"key": name, "value": to_json_value(value)} for name, value in record.headers]
    fields = {
        "partition": record.partition,
        "timestamp": record.timestamp_ms,
        "key": to_json_value(record.key),
        "value": to_json_value(record.value),
        "headers": headers or None,
    }
    said = {name: value for name, value in fields.items() if name == "value" or value is not None}
    return _encode(said).encode() + b"\n"


def _line(what: Record | TransactionMarker, more: Mapping[str, Any]) -> bytes:
    """Return a line of JSON: where and when something was written, then more of it."""
    place = {
        "topic": what.topic,
        "partition": what.partition,
        "offset": what.offset,
        "timestamp": what.timestamp,
    }
    return _encode({**place, **more}).encode() + b"\n"


def parse_json_line(line: bytes) -> InputRecord:
    """Parse the record of one JSON line.

    ``topic`` and ``offset`` are not looked at: where a record goes is said elsewhere, so that what
    was read from one topic can be written to another.

    :raises ValueError: it is none; the text says why.
    """
    try:
        document = json.loads(line)
    except json.JSONDecodeError as error:
        # Not its whole text: "line 1" there is not the line of the input.
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError('not a JSON object such as {"key": "k", "value": "v"}')
    unknown = sorted(document.keys() - _FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}")
    if "value" not in document:
        raise ValueError('there is no "value"; a tombstone has "value": null')
    value, key = document["value"], document.get("key")
    nested = _texts_of(line) if _is_nested(value) or _is_nested(key) else {}
    return InputRecord(
        nested["value"] if _is_nested(value) else from_json_value(value, "value"),
        nested["key"] if _is_nested(key) else from_json_value(key, "key"),
        _parse_headers(document.get("headers")),
        _parse_count(document.get("partition"), "partition", 2**31 - 1),
        _parse_count(document.get("timestamp"), "timestamp", 2**63 - 1),
    )


def _is_nested(value: Any) -> bool:
    """Return True for an array, or for an object that is not bytes as base64."""
    return isinstance(value, list) or (isinstance(value, dict) and list(value) != [BASE64])


def _texts_of(line: bytes) -> dict[str, bytes]:
    """Return the text of each member of an object that is known to be JSON, as it stands there.

    Numbers and white space are not written anew.
    """
    text = line.decode(json.detect_encoding(line))
    decoder = json.JSONDecoder()
    found: dict[str, bytes] = {}
    position = text.index("{")
    while text[position] != "}":
        name, position = decoder.raw_decode(text, _after_space(text, position + 1))
        start = _after_space(text, _after_space(text, position) + 1)  # behind the colon
        _, end = decoder.raw_decode(text, start)
        found[name] = text[start:end].encode()
        position = _after_space(text, end)
    return found


def _after_space(text: str, position: int) -> int:
    while text[position] in " \t\n\r":
        position += 1
    return position


_FIELDS = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})


def _parse_headers(value: Any) -> Headers:
    if value is None:
        return ()
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list) and all(
        isinstance(item, dict) and {"key"} <= item.keys() <= {"key", "value"} for item in value
    ):
        pairs = [(item["key"], item.get("value")) for item in value]
    else:
        raise ValueError('headers must be an object, or a list of {"key": ..., "value": ...}')
    if not all(isinstance(name, str) for name, _ in pairs):
        raise ValueError("the key of a header must be text")
    return tuple((name, from_json_value(data, f"header {name!r}")) for name, data in pairs)


def _parse_count(value: Any, name: str, maximum: int) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError(f"{name} must be an integer from 0 to {maximum}")
    return value


# ------------------------------------------------------------------------------ format strings


def value_line(record: Record) -> bytes:
    """Return the value and a newline; for a tombstone it is only the newline."""
    return (record.value or b"") + b"\n"


def compile_format(text: str) -> RecordFormat:
    """Make a function that writes a record as the format string says. Nothing is added: no newline.

    :raises ValueError: a percent sign or a backslash that means nothing.
    """
    parts: list[bytes | Callable[[Record], bytes]] = []
    position = 0
    for match in _PIECES.finditer(text):
        parts.append(text[position : match.start()].encode())
        position = match.end()
        parts.append(_piece(match, text))
    parts.append(text[position:].encode())
    pieces = _joined(parts)

    def write(record: Record) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in pieces])

    return write


def _piece(match: re.Match[str], text: str) -> bytes | Callable[[Record], bytes]:
    verb, escape, code = match["verb"], match["escape"], match["hex"]
    if match["coding"] is not None:
        found = _CODINGS.get((verb, match["coding"]))
        if found is not None:
            return found
        raise ValueError(f"{match[0]!r} in the format {text!r}: only %k and %v have a coding")
    if verb in ("n", "%"):
        return b"\n" if verb == "n" else b"%"
    if verb:
        found = _VERBS.get(verb)
        if found is not None:
            return found
    elif code is not None:
        return bytes.fromhex(code)
    elif escape is not None and escape in _ESCAPES:
        return _ESCAPES[escape]
    raise ValueError(f"{match[0]!r} in the format {text!r} means nothing: {FORMAT_HELP}")


def _joined(
    parts: Sequence[bytes | Callable[[Record], bytes]],
) -> list[bytes | Callable[[Record], bytes]]:
    """Return the parts with literals that follow each other as one."""
    joined: list[bytes | Callable[[Record], bytes]] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, bytes) and isinstance(last, bytes):
            joined[-1] = last + part
        elif part != b"":
            joined.append(part)
    return joined


def _headers_text(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)


_VERBS: dict[str, Callable[[Record], bytes]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "d": lambda record: human_time(record.timestamp).encode(),
    "K": lambda record: b"%d" % _size(record.key),
    "S": lambda record: b"%d" % _size(record.value),
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "h": _headers_text,
}

_CODINGS: dict[tuple[str, str], Callable[[Record], bytes]] = {
    ("k", "hex"): lambda record: (record.key or b"").hex().encode(),
    ("v", "hex"): lambda record: (record.value or b"").hex().encode(),
    ("k", "base64"): lambda record: base64.b64encode(record.key or b""),
    ("v", "base64"): lambda record: base64.b64encode(record.value or b""),
}


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def marker_line(marker: TransactionMarker) -> bytes:
    """Return a marker as a line of JSON; ``control`` tells it from a record."""
    control = {"control": "COMMIT" if marker.committed else "ABORT"}
    return _line(
        marker, control | fields_of(marker, "producer_id producer_epoch coordinator_epoch")
    )


def meta_line(record: Record) -> bytes:
    """Return one record as a line of JSON, with sizes in place of key and value."""
    sizes = {
        "key_bytes": None if record.key is None else len(record.key),
        "value_bytes": None if record.value is None else len(record.value),
        "header_count": len(record.headers),
    }
    return _line(record, sizes)
