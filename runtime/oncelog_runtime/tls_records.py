"""The records of TLS have their bounds in the clear, so that a part of one is known for what it is.

OpenSSL takes the bytes of a record that is not whole and says nothing of them. To a protocol above
a peer that sends one a byte at a time would look as if it rested.
"""

from __future__ import annotations

__all__ = ["HEADER_BYTES", "RecordBounds"]

HEADER_BYTES = 5
"""A record begins with its type, a version, and the length of its body (RFC 8446, 5.1)."""


class RecordBounds:
    """It follows where records begin and end in the bytes of one direction."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""
        """A header that is not whole."""
        self._left = 0
        """So many bytes of the present record's body have not come."""

    def take(self, arrived: memoryview) -> int:
        """Go on by these bytes; return how many records end within them."""
        at, end, ended = 0, len(arrived), 0
        while at < end:
            if not self._left:
                missing = HEADER_BYTES - len(self._head)
                head = self._head + bytes(arrived[at : at + missing])
                at += missing
                if at > end:
                    self._head = head
                    break
                self._head = b""
                self._left = head[3] << 8 | head[4]
            step = min(self._left, end - at)
            at += step
            self._left -= step
            if self._left:
                break
            ended += 1
        return ended

    @property
    def within(self) -> bool:
        """Return whether the bytes end within a record."""
        return bool(self._left or self._head)
