"""A peer that is not known yet may send few bytes, and ask few times what is spoken. Pure."""

from __future__ import annotations

from oncelog_protocol import limits
from oncelog_protocol.errors import RemoteProtocolError


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
