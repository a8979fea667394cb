"""OAUTHBEARER shows a token, which somebody else judges: here is the frame around it. Pure.

::

    message := gs2-header  %x01  *(key "=" value %x01)  %x01                 (RFC 7628, 3.1)

Rules
-----
* Only over TLS: whoever drives the machines sees to it.
* One pair is ``auth``, with ``Bearer`` and the token. Others mean nothing here; none comes twice.
* ``authzid`` is empty or whom the token names [S2].
* To judge a token takes a moment, and may need a key that has to be fetched, so it is an outcome of
  its own: the driver has it done where it stops nobody.
* A token names a user by a name of their alphabet. Any other name is refused: two of them could be
  taken for one.
* A failure ends the exchange at once, by the error that carries it: there is no second message that
  tells its cause, as RFC 7628 has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.sasl.gs2 import SaslSyntaxError, decoded_text, is_legal_user, parted
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed

CAUSE_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """The exchange waits for somebody who judges a token."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """It is what a token that is believed says."""

    name: str
    expires_ms: int
    """It is in milliseconds since 1970."""


_PAIR = re.compile(r"([A-Za-z]+)=([!-~ \t\r\n]*)")
_AUTH = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class OAuthBearerServer:
    """It is one exchange at the server's end."""

    def __init__(self) -> None:
        self._is_over = False
        self._authzid: str | None = None

    def step(self, data: bytes) -> TokenCheck | Failed:
        """Take in the message of the client; return what is to be judged."""
        if self._is_over:
            return Failed("a second message of OAUTHBEARER")
        self._is_over = True
        try:
            self._authzid, token = read_token(data)
        except SaslSyntaxError as error:
            return Failed(str(error))
        return TokenCheck(token)

    def judged(self, found: TokenHolder | Exception) -> Done | Failed:
        """Take in what the judge has found; return what comes of it.

        :param found: with an exception the token is not believed. Its text is for the log, and must
            not quote the token.
        """
        authzid, self._authzid = self._authzid, None
        if authzid is None:
            return Failed("nothing was to be judged")
        if isinstance(found, Exception):
            text = str(found)[:CAUSE_CHARS_MAX]
            return Failed(f"the token is refused: {type(found).__name__}: {text}")
        if not is_legal_user(found.name):
            return Failed("no user can have the name in the token")
        if authzid not in ("", found.name):
            return Failed(f"user {found.name} wants to be another one")
        return Done(found.name, expires_ms=found.expires_ms)


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
