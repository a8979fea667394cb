"""The server's end of SCRAM: the peer proves that it knows a password, and does not show it. Pure.

Rules
-----
* The nonce of the last message *equals* the client's and ours together [S1], and its ``c=`` the
  header of the first message.
* ``authzid`` is empty or the user itself [S2].
* A name without a user gets a salt that is always the same, and fails at the last step like a wrong
  password, after as many hashes [S4].
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

from oncelog_protocol.sasl.credential import Mechanism, ScramCredential, stand_in
from oncelog_protocol.sasl.gs2 import SaslSyntaxError, is_legal_user
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.scram_messages import (
    ClientFirst,
    nonce_text,
    read_client_final,
    read_client_first,
    server_final,
    server_first,
    signed,
)

CredentialLookup = Callable[[Mechanism, str], ScramCredential | None]
"""It returns the credential that a user has for a mechanism; None: no user, a disabled one, or no
such credential."""


class _Challenge(NamedTuple):
    first: ClientFirst
    answer: str
    credential: ScramCredential
    is_user: bool


class ScramServer:
    """It is one exchange at the server's end.

    :param nonce: NONCE_BYTES that nobody can guess, never used before.
    :raises LocalProtocolError: the nonce is too short.
    """

    def __init__(
        self, mechanism: Mechanism, look_up: CredentialLookup, cluster_secret: bytes, nonce: bytes
    ) -> None:
        self._mechanism = mechanism
        self._look_up = look_up
        self._cluster_secret = cluster_secret
        self._nonce = nonce_text(nonce)
        self._challenge: _Challenge | None = None
        self._is_over = False

    def step(self, data: bytes) -> Continue | Done | Failed:
        """Take in a message of the client; return what comes of it."""
        if self._is_over:
            return Failed("a message after the end of the exchange")
        try:
            if self._challenge is None:
                return self._begin(read_client_first(data))
            return self._end(self._challenge, data)
        except SaslSyntaxError as error:
            self._is_over = True
            return Failed(str(error))

    def _begin(self, first: ClientFirst) -> Continue:
        if not is_legal_user(first.name):
            raise SaslSyntaxError("no user can have this name")
        if first.authzid not in ("", first.name):
            raise SaslSyntaxError(f"user {first.name} wants to be another one")
        # Both are computed for every name, so that a user takes no longer and no shorter.
        nobody = stand_in(self._cluster_secret, self._mechanism, first.name)
        found = self._look_up(self._mechanism, first.name)
        credential = found or nobody
        answer = server_first(first.nonce + self._nonce, credential.salt, credential.iterations)
        self._challenge = _Challenge(first, answer, credential, found is not None)
        return Continue(answer.encode())

    def _end(self, challenge: _Challenge, data: bytes) -> Done | Failed:
        self._is_over = True
        first, answer, credential, is_user = challenge
        final = read_client_final(data)
        if not self._is_own(final.nonce, first.nonce):
            raise SaslSyntaxError("the nonce is not that of this exchange")
        if not hmac.compare_digest(final.header, first.header.encode()):
            raise SaslSyntaxError("c= is not the header of the first message")
        messages = signed(first.bare, answer, final.unproved)
        accepted = credential.accepts(final.proof, messages)
        signature = credential.signature(messages)
        if not (accepted and is_user):
            reason = "wrong password" if is_user else "no such user"
            return Failed(f"{reason}: {first.name} by {self._mechanism}")
        return Done(first.name, server_final(signature))

    def _is_own(self, nonce: str, client_nonce: str) -> bool:
        return hmac.compare_digest(nonce.encode(), (client_nonce + self._nonce).encode())
