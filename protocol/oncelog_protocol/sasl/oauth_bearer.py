"""OAUTHBEARER shows a token, which somebody else judges: here is the frame around it. Pure.

::

    message := gs2-header  %x01  *(key "=" value %x01)  %x01                 (RFC 7628, 3.1)

Rules
-----
* Only over TLS: whoever drives the machines sees to it.
* One pair is ``auth``, with ``Bearer`` and the token. Others mean nothing here; none comes twice.
* ``authzid`` is empty or whom the token names [S2].
* A failure ends the exchange at once, by the error that carries it: there is no second message that
  tells its cause, as RFC 7628 has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.sasl.gs2 import SaslSyntaxError, decoded_text, parted
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed

TokenVerifier = Callable[[str], tuple[str, int]]
"""It returns whom a token names, and when it expires, in milliseconds since 1970. It raises for one
that is not to be believed; its text is for the log, and must not quote the token."""

PRINCIPAL_CHARS_MAX = 255

_PAIR = re.compile(r"([A-Za-z]+)=([!-~ \t\r\n]*)")
_AUTH = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class OAuthBearerServer:
    """It is one exchange at the server's end."""

    def __init__(self, verify: TokenVerifier) -> None:
        self._verify = verify
        self._is_over = False

    def step(self, data: bytes) -> Done | Failed:
        """Take in the message of the client; return what comes of it."""
        if self._is_over:
            return Failed("a second message of OAUTHBEARER")
        self._is_over = True
        try:
            authzid, token = read_token(data)
        except SaslSyntaxError as error:
            return Failed(str(error))
        try:
            name, expires_ms = self._verify(token)
        except Exception as error:  # Whatever a verifier trips over, the token is not believed.
            return Failed(f"the token is refused: {type(error).__name__}: {str(error)[:200]}")
        if not 1 <= len(name) <= PRINCIPAL_CHARS_MAX or not name.isprintable():
            return Failed("the token names nobody, or nobody who can be printed")
        if authzid not in ("", name):
            return Failed(f"user {name} wants to be another one")
        return Done(name, expires_ms=expires_ms)


class OAuthBearerClient:
    """It is one exchange at the client's end. It does not know whom its token names.

    :raises LocalProtocolError: the token has characters that no token has.
    """

    def __init__(self, token: str) -> None:
        if not _TOKEN.fullmatch(token):
            raise LocalProtocolError("the token is empty, or has characters that no token has")
        self.mechanism = Mechanism.OAUTHBEARER
        self._token = token

    def start(self) -> bytes:
        """Return the only message."""
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def step(self, data: bytes) -> Continue | Done | Failed:
        """Take in the server's consent, which has no data."""
        if data:
            return Failed("the server's message cannot be trusted: it has data with its consent")
        return Done("")


def read_token(data: bytes) -> tuple[str, str]:
    """Return the authzid and the token of a message.

    :raises SaslSyntaxError: it breaks the rules above.
    """
    _, authzid, rest = parted(decoded_text(data))
    begin, *pairs = rest.split("\x01")
    if begin or pairs[-2:] != ["", ""]:
        raise SaslSyntaxError("the message is not framed by %x01")
    found: dict[str, str] = {}
    for pair in pairs[:-2]:
        match = _PAIR.fullmatch(pair)
        if match is None or match[1] in found:
            raise SaslSyntaxError("a pair is none, or comes twice")
        found[match[1]] = match[2]
    bearer = _AUTH.fullmatch(found.get("auth", ""))
    if bearer is None:
        raise SaslSyntaxError("there is no bearer token")
    return authzid, bearer[1]
