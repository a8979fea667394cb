"""Bytes become something that people can read: JSON, text, msgpack, and always hexadecimal. Pure.

Rules: nothing is executed or fetched to decode. At most ``SHOWN_BYTES_MAX`` of a value are shown,
in whatever form, and what was left out is said. Characters that would change how others are shown
are shown as their escapes. Tables of Arrow and Parquet are only recognised here: reading one may
take any amount of memory, so that a process of its own does it (``tables.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

SHOWN_BYTES_MAX = 1 << 20
HEX_BYTES_MAX = 16 << 10
JSON_BYTES_MAX = 256 << 10
"""JSON up to here is written with one member a line; beyond it stays as it is."""
PREVIEW_LENGTH = 240
"""Characters of a value in a row."""
HEX_ROW = 16


@dataclass(frozen=True, slots=True)
class Form:
    """It is bytes in one form."""

    name: str
    """It is ``JSON``, ``text``, ``msgpack``, ``table`` or ``hex``."""
    text: str
    left_out: int = 0
    """So many bytes of the value are not shown, at least."""


def forms_of(data: bytes) -> list[Form]:
    """Return the bytes in every form that they have, the most telling first."""
    shown = data[:SHOWN_BYTES_MAX]
    found = [form for form in (_json_form(data), _msgpack_form(data)) if form is not None]
    text = _utf8(shown)
    if text is not None:
        left_out = len(data) - len(text.encode())
        found.append(Form("text", visible(text), left_out))
    dumped = data[:HEX_BYTES_MAX]
    found.append(Form("hex", "\n".join(hex_rows(dumped)), len(data) - len(dumped)))
    return found


def preview(data: bytes | None, length: int = PREVIEW_LENGTH) -> str | None:
    """Return the beginning of the bytes on one line; None stays None."""
    if data is None:
        return None
    head = data[: 4 * length]
    text = _utf8(head)
    if text is None or (not text and head):
        count = length // 2 - 2
        return "0x" + data[:count].hex() + ("…" if len(data) > count else "")
    line = visible(text.replace("\r\n", "\n").replace("\n", "⏎").replace("\t", " "))
    cut = len(line) > length or len(data) > len(head)
    return line[:length] + ("…" if cut else "")


def _utf8(data: bytes) -> str | None:
    """Return text; the last character may be cut in the middle. None: the bytes are no text."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and error.end == len(data):
            return data[: error.start].decode()
        return None


def visible(text: str) -> str:
    """Return text in which every character is to be seen, and changes none of the others.

    Control characters, and those that turn the direction of what follows, become escapes.
    """
    return _HIDDEN.sub(lambda found: _escaped(found[0]), text)


def _escaped(sign: str) -> str:
    code = ord(sign)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u08e2\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
"""Unicode's controls, formats and separators of lines; not the joiners that scripts are written
with."""


# ------------------------------------------------------------------------------ JSON


def _json_form(data: bytes) -> Form | None:
    if len(data) > SHOWN_BYTES_MAX or data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        text = data.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    if len(data) > JSON_BYTES_MAX:
        return Form("JSON", visible(text))
    written, whole = _limited(indented(text), SHOWN_BYTES_MAX)
    return Form("JSON", visible(written), 0 if whole else 1)


_JSON_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
INDENT_DEPTH_MAX = 40
"""Deeper lines begin no further to the right."""


def indented(text: str) -> Iterator[str]:
    """Yield JSON with one member or element a line; numbers and texts stay as they are written."""
    depth = 0
    parts = _JSON_PART.findall(text)
    for place, part in enumerate(parts):
        if part in ("{", "["):
            depth += 1
            yield part
            if parts[place + 1] not in ("}", "]"):
                yield _line(depth)
        elif part in ("}", "]"):
            depth -= 1
            if parts[place - 1] not in ("{", "["):
                yield _line(depth)
            yield part
        elif part == ",":
            yield part + _line(depth)
        else:
            yield ": " if part == ":" else part


def _line(depth: int) -> str:
    return "\n" + "  " * min(depth, INDENT_DEPTH_MAX)


def _limited(parts: Iterable[str], length: int) -> tuple[str, bool]:
    """Return parts joined, up to a length, and whether they are all."""
    kept: list[str] = []
    for part in parts:
        length -= len(part)
        if length < 0:
            return "".join(kept), False
        kept.append(part)
    return "".join(kept), True


# ------------------------------------------------------------------------------ msgpack, hex


def _msgpack_form(data: bytes) -> Form | None:
    """Return what a map or an array holds; other values look like msgpack by chance too often."""
    if not data or len(data) > JSON_BYTES_MAX or not _begins_msgpack(data[0]):
        return None
    try:
        document = msgpack.unpackb(data, strict_map_key=False, timestamp=1)
        text = json.dumps(_jsonable(document), ensure_ascii=False)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        return None
    written, whole = _limited(indented(text), SHOWN_BYTES_MAX)
    return Form("msgpack", visible(written), 0 if whole else 1)


def _begins_msgpack(first: int) -> bool:
    return 0x80 <= first <= 0x9F or 0xDC <= first <= 0xDF


def _jsonable(thing: Any) -> Any:
    """Return what msgpack held as JSON can say it; bytes and extensions become text."""
    if isinstance(thing, dict):
        return {_name(key): _jsonable(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple) and not isinstance(thing, msgpack.ExtType):
        return [_jsonable(item) for item in thing]
    if isinstance(thing, bytes):
        return f"0x{thing.hex()}"
    if thing is None or isinstance(thing, str | int | float | bool):
        return thing
    return str(thing)


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(_jsonable(key))


def hex_rows(data: bytes) -> Iterator[str]:
    """Yield lines with a position, 16 bytes in hexadecimal, and the ASCII among them."""
    for start in range(0, len(data), HEX_ROW):
        row = data[start : start + HEX_ROW]
        signs = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"{start:08x}  {row.hex(' '):<{HEX_ROW * 3 - 1}}  {signs}"


# ------------------------------------------------------------------------------ tables


def table_kind(data: bytes) -> str | None:
    """Return ``arrow``, ``arrow stream`` or ``parquet`` for bytes that begin like such a table."""
    if data.startswith(b"ARROW1\0\0"):
        return "arrow"
    if data.startswith(b"PAR1") and data.endswith(b"PAR1") and len(data) > 8:
        return "parquet"
    if data.startswith(b"\xff\xff\xff\xff") and len(data) > 8:
        return "arrow stream"
    return None
