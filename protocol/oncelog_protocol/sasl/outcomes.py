"""A step of a SASL machine has one of these outcomes.

Whoever drives a machine sends what ``Continue`` and ``Done`` carry. Of ``Failed`` the peer learns
the error alone, and the log the cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog_protocol.errors import ApiError, SaslAuthenticationFailedError


@dataclass(frozen=True, slots=True)
class Continue:
    """The exchange goes on: the peer is sent the data, and answers."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Done:
    """The exchange has succeeded. ``data``, which a server may still have to send, can be empty."""

    name: str
    """It says who the peer is; at the client's end, who the client is. The principal is
    ``User:<name>``."""
    data: bytes = field(default=b"", repr=False)
    expires_ms: int | None = None
    """When what was shown expires, in milliseconds since 1970; None: it does not."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The exchange has failed. The cause is for the log of this end only."""

    cause: str
    error: type[ApiError] = SaslAuthenticationFailedError
    is_last: bool = True
    """Whether the connection ends; else the peer may try another mechanism."""
