"""A peer that is not known yet may send few bytes, and ask few times what is spoken. Pure.

Its first bytes tell whether it took a listener of Kafka's protocol for one of ours, or the reverse.
"""

from __future__ import annotations

import struct
from typing import Final

from oncelog_protocol import limits
from oncelog_protocol.errors import RemoteProtocolError

FIRST_BYTES: Final = 16
"""So many bytes of a first frame tell in which protocol it is."""
_API_VERSIONS: Final = 18
_KAFKAS_KEY_MAX: Final = 127
_KAFKAS_VERSION_MAX: Final = 31
_KAFKAS_HEAD = struct.Struct(">ihhih")
"""The size, the API key, its version, the correlation id, and the length of the client id."""
_OUR_HEAD = struct.Struct(">IIBB")
"""The size, that of the head, and the head's first bytes: an array, and the API key."""
_OUR_ARRAYS: Final = range(0x94, 0x98)


def begins_like_kafka(first: bytes) -> bool:
    """Return whether these are the first bytes of a client of Kafka. Its Produce is not told from
    other bytes, but no client begins with it."""
    if len(first) < _KAFKAS_HEAD.size:
        return False
    _, key, version, correlation_id, name_bytes = _KAFKAS_HEAD.unpack_from(first)
    return bool(
        0 < key <= _KAFKAS_KEY_MAX
        and 0 <= version <= _KAFKAS_VERSION_MAX
        and correlation_id >= 0
        and -1 <= name_bytes <= limits.NAME_CHARS_MAX
    )


def begins_like_ours(first: bytes) -> bool:
    """Return whether these are the first bytes of a client of ours, which asks for versions."""
    if len(first) < _OUR_HEAD.size:
        return False
    size, head_bytes, array, key = _OUR_HEAD.unpack_from(first)
    return bool(head_bytes <= size - 4 and array in _OUR_ARRAYS and key == _API_VERSIONS)


class Stranger:
    """It counts what one connection takes before its peer is known."""

    __slots__ = ("_bytes", "_hellos")

    def __init__(self) -> None:
        self._bytes = 0
        self._hellos = 0

    def sends(self, nbytes: int) -> None:
        """Count bytes that came.

        :raises RemoteProtocolError: they are too many, and the peer is still not known.
        """
        self._bytes += nbytes
        if self._bytes > limits.UNAUTHENTICATED_BYTES_MAX:
            raise RemoteProtocolError(
                f"more than {limits.UNAUTHENTICATED_BYTES_MAX} bytes before the peer is known"
            )

    def greets(self) -> None:
        """Count an ApiVersions.

        :raises RemoteProtocolError: one too many.
        """
        self._hellos += 1
        if self._hellos > limits.UNAUTHENTICATED_HELLOS_MAX:
            raise RemoteProtocolError(f"{self._hellos} ApiVersions before authentication")
