"""The client's end of SCRAM: it proves its password, and demands a proof of the server. Pure.

Rules
-----
* The server's nonce begins with ours and goes on; its iterations are 4,096 to 1,000,000.
* Nothing counts before the server's signature has been verified: only then it has the credential
  [S3].
"""

from __future__ import annotations

import hmac

from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl.credential import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES_MAX,
    SCRAM_HASHES,
    KeptKeys,
    Mechanism,
    ScramKeys,
    proof_of,
)
from oncelog_protocol.sasl.gs2 import SaslSyntaxError, decoded_text, is_legal_user
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.saslprep import prepared_password
from oncelog_protocol.sasl.scram_messages import (
    client_final,
    client_first,
    encoded,
    nonce_text,
    read_server_final,
    read_server_first,
    signed,
)


class ScramClient:
    """It is one exchange at the client's end.

    :param nonce: NONCE_BYTES that nobody can guess, never used before.
    :param kept: the keys of the last exchange; the caller keeps it for the next one.
    :raises UnacceptableCredentialError: no user can have the name or the password.
    :raises LocalProtocolError: the nonce is too short.
    """

    def __init__(
        self, mechanism: Mechanism, name: str, password: str, nonce: bytes, kept: KeptKeys
    ) -> None:
        if not is_legal_user(name):
            raise UnacceptableCredentialError(f"no user can have the name {name!r}")
        self.mechanism = mechanism
        self._name = name
        self._hash_name = SCRAM_HASHES[mechanism]
        self._prepared = prepared_password(password)
        self._kept = kept
        self._first = client_first(name, nonce_text(nonce))
        self._keys: ScramKeys | None = None
        self._messages = b""
        self._is_over = False

    def start(self) -> bytes:
        """Return the first message."""
        return f"{self._first.header}{self._first.bare}".encode()

    def step(self, data: bytes) -> Continue | Done | Failed:
        """Take in a message of the server; return what comes of it."""
        if self._is_over:
            return Failed("a message after the end of the exchange")
        try:
            if self._keys is None:
                return self._prove(decoded_text(data))
            return self._verify(self._keys, read_server_final(data))
        except SaslSyntaxError as error:
            self._is_over = True
            return Failed(f"the server's message cannot be trusted: {error}")

    def _prove(self, text: str) -> Continue:
        answer = read_server_first(text)
        own = self._first.nonce
        if not answer.nonce.startswith(own) or len(answer.nonce) == len(own):
            raise SaslSyntaxError("its nonce does not go on from ours")
        if not ITERATIONS_MIN <= answer.iterations <= ITERATIONS_MAX:
            raise SaslSyntaxError(
                f"it wants {answer.iterations} iterations, not {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        if not 0 < len(answer.salt) <= SALT_BYTES_MAX:
            raise SaslSyntaxError(f"its salt has {len(answer.salt)} bytes")
        keys = self._kept.of(self._hash_name, self._prepared, answer.salt, answer.iterations)
        unproved = client_final(self._first.header, answer.nonce)
        self._messages = signed(self._first.bare, text, unproved)
        self._keys = keys
        proof = proof_of(keys, self._messages, self._hash_name)
        return Continue(f"{unproved},p={encoded(proof)}".encode())

    def _verify(self, keys: ScramKeys, signature: bytes) -> Done | Failed:
        self._is_over = True
        wanted = hmac.digest(keys.server_key, self._messages, self._hash_name)
        if not hmac.compare_digest(signature, wanted):
            raise SaslSyntaxError("its signature is wrong: it does not have our credential")
        return Done(self._name)
