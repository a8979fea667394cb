"""msgpack has its bounds here: this is the one place that calls the library.

Rules
-----
* Only nil, bool, int, float, str, bin and arrays travel. Maps and extension types are refused.
* Hostile bytes cost bounded memory. msgpack makes an array as long as its header claims before it
  reads one item, at every level of nesting, so a claim is believed only up to
  ``array_count_max`` while that is small, and otherwise only after a pass that builds nothing has
  found every claimed item to be there.
* Whatever is wrong with the bytes, :class:`MalformedError` says so and nothing else is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgpack

from oncelog_protocol.types import Buffer

UNVERIFIED_COUNT_MAX = 2048
"""An array of this many items may be made on the word of its header: msgpack nests at most 1024
deep, so such claims take at most 16 MiB for a moment."""

COUNTED_BYTES_MIN = 64 * 1024
"""From this size on the arrays of a value are counted while they are made: an empty array is one
byte on the wire and 72 in memory. Below it that is at most 5 MiB."""


class MalformedError(ValueError):
    """The bytes are not one msgpack value within bounds, or msgpack cannot hold a value."""


class Packed:
    """It is a value that is msgpack already. In a message it may stand for a field."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


SPLICED_DEPTH = 2
"""Packed values are looked for so deep: among the fields of a head, and those of its message."""


def pack(value: Any) -> bytes:
    """Return ``value`` as msgpack, with what is ``Packed`` already as it is.

    :raises MalformedError: it holds something that msgpack has no type for, or an integer beyond 64
        bits, or text that is not UTF-8.
    """
    try:
        try:
            packed: bytes = msgpack.packb(value)
        except TypeError:
            packed = b"".join(_spliced(value, SPLICED_DEPTH))
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise MalformedError(str(exc)) from exc
    return packed


def _spliced(value: Any, depth: int) -> Iterator[bytes]:
    if type(value) is Packed:
        yield value.data
    elif depth and type(value) is list:
        yield msgpack.Packer().pack_array_header(len(value))
        for item in value:
            yield from _spliced(item, depth - 1)
    else:
        yield msgpack.packb(value)


def unpack(data: Buffer, *, array_count_max: int, list_count_max: int) -> Any:
    """Return the one value that ``data`` holds.

    :param array_count_max: most items of one array.
    :param list_count_max: most arrays in all; counted when ``data`` is not small.
    :raises MalformedError: for every fault of the bytes.
    """
    size = len(data)
    array_count_max = min(array_count_max, size)
    try:
        if array_count_max > UNVERIFIED_COUNT_MAX:
            _walk(data)
        if size < COUNTED_BYTES_MIN:
            return msgpack.unpackb(
                data, max_array_len=array_count_max, max_map_len=0, max_ext_len=0
            )
        return msgpack.unpackb(
            data,
            max_array_len=array_count_max,
            max_map_len=0,
            max_ext_len=0,
            list_hook=_list_counter(list_count_max),
        )
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as exc:
        raise MalformedError(f"{type(exc).__name__}: {exc}") from exc


def _walk(data: Buffer) -> None:
    """Read over one whole value without building it; raise where it ends too early."""
    unpacker = msgpack.Unpacker(None, read_size=1024, max_buffer_size=len(data))
    unpacker.feed(data)
    unpacker.skip()


def _list_counter(count_max: int) -> Callable[[list[Any]], list[Any]]:
    left = count_max

    def count(value: list[Any]) -> list[Any]:
        nonlocal left
        left -= 1
        if left < 0:
            raise MalformedError(f"more than {count_max} arrays")
        return value

    return count
