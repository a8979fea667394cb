"""Authenticate carries the exchange of a SASL mechanism, one message a request.

The machines of both ends are in ``oncelog_protocol.sasl``. The same request authenticates again
before a session ends (KIP-368): answers come in order, so nothing has to stop for it.

The data of both messages may be a password or a token: it is left out of their ``repr``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, ClassVar

from oncelog_protocol import limits
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int64, MaxLength, Name, Text, message

SaslData = Annotated[bytes, MaxLength(limits.SASL_DATA_BYTES_MAX)]


@message
class AuthenticateResponse:
    """Its errors are SASL_AUTHENTICATION_FAILED, whatever the cause; ILLEGAL_SASL_STATE for a
    message out of turn; UNSUPPORTED_SASL_MECHANISM, with the ``mechanisms`` that the listener
    takes: the peer may try one of them. After the two others the connection ends."""

    error_code: Int16 = 0
    error_message: Text | None = None
    data: SaslData = field(default=b"", repr=False)
    session_ms: Int64 = 0
    """Milliseconds until the connection ends unless the peer authenticates again; 0: never."""
    mechanisms: list[Name] = field(default_factory=list)


@message
class AuthenticateRequest(Request):
    """The mechanism is fixed by the first one of an exchange; the others name the same."""

    api_key: ClassVar[ApiKey] = ApiKey.AUTHENTICATE
    response: ClassVar[type] = AuthenticateResponse

    mechanism: Name
    data: SaslData = field(repr=False)
