"""This module computes what a cluster keeps of a password, and what proves its knowledge. Pure.

::

    SaltedPassword := PBKDF2(SASLprep(password), salt, iterations)
    ClientKey := HMAC(SaltedPassword, "Client Key")     StoredKey := H(ClientKey)
    ServerKey := HMAC(SaltedPassword, "Server Key")
    Proof     := ClientKey XOR HMAC(StoredKey, messages)                     (RFC 5802, 3)

Rules
-----
* A credential is salt, iterations, StoredKey and ServerKey. All are computed by whoever sets the
  password: neither it nor SaltedPassword, which is as good, goes to a broker. Clients of Kafka know
  no other way than to send SaltedPassword; the broker that is asked computes the rest, and keeps
  nothing of it.
* Secrets are compared by ``hmac.compare_digest`` only [S5], and are in no ``repr``.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl.saslprep import prepared_password

ITERATIONS_MIN = 4096
"""RFC 7677 demands as many; a server that asks for fewer wants to guess the password."""

ITERATIONS_MAX = 1_000_000
"""Half a second of a client's time; a server that asks for more wants to waste it."""

ITERATIONS_DEFAULT = 16_384

SALT_BYTES = 16
"""It is what ``users add`` draws; a name without a user has as many."""

SALT_BYTES_MAX = 64


class Mechanism(StrEnum):
    """It names a mechanism by which a peer may prove who it is."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    PLAIN = "PLAIN"
    OAUTHBEARER = "OAUTHBEARER"

    @property
    def needs_encryption(self) -> bool:
        """Return whether the mechanism shows a secret to whoever listens."""
        return self in (Mechanism.PLAIN, Mechanism.OAUTHBEARER)


SCRAM_HASHES = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
"""The hash of each mechanism of the family, as ``hashlib`` names it."""


class ScramKeys(NamedTuple):
    """They are made of a password, and they are as good as it."""

    client_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return "ScramKeys(***)"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """It is what a cluster keeps of the password of one user, for one mechanism.

    :raises UnacceptableCredentialError: a mechanism that is not SCRAM, iterations beyond 4,096 to
        1,000,000, a salt beyond 16 to 64 bytes, or keys that are not of the mechanism's length.
    """

    mechanism: Mechanism
    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        hash_name = SCRAM_HASHES.get(self.mechanism)
        if hash_name is None:
            raise UnacceptableCredentialError(f"{self.mechanism} keeps no credential")
        if not ITERATIONS_MIN <= self.iterations <= ITERATIONS_MAX:
            raise UnacceptableCredentialError(
                f"iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}, not {self.iterations}"
            )
        if not SALT_BYTES <= len(self.salt) <= SALT_BYTES_MAX:
            raise UnacceptableCredentialError(
                f"a salt has {SALT_BYTES} to {SALT_BYTES_MAX} bytes, not {len(self.salt)}"
            )
        size = hashlib.new(hash_name).digest_size
        if len(self.stored_key) != size or len(self.server_key) != size:
            raise UnacceptableCredentialError(f"keys of {self.mechanism} have {size} bytes")

    @classmethod
    def make(
        cls, mechanism: Mechanism, password: str, salt: bytes, iterations: int = ITERATIONS_DEFAULT
    ) -> Self:
        """Return the credential of a password. It takes milliseconds, by the iterations.

        :raises UnacceptableCredentialError: as the class, or for a password that
            :func:`prepared_password` refuses.
        """
        prepared = prepared_password(password)
        # Iterations and salt are checked before anybody computes with them.
        blank = bytes(hashlib.new(SCRAM_HASHES.get(mechanism, "sha256")).digest_size)
        cls(mechanism, salt, iterations, blank, blank)
        keys = derived_keys(SCRAM_HASHES[mechanism], prepared, salt, iterations)
        stored_key = hashlib.new(SCRAM_HASHES[mechanism], keys.client_key).digest()
        return cls(mechanism, salt, iterations, stored_key, keys.server_key)

    @classmethod
    def of_salted(
        cls, mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> Self:
        """Return the credential of what somebody else has derived from a password.

        :raises UnacceptableCredentialError: as the class, or for another length than the hash has.
        """
        hash_name = SCRAM_HASHES.get(mechanism, "sha256")
        if len(salted_password) != hashlib.new(hash_name).digest_size:
            raise UnacceptableCredentialError(f"that is no salted password of {mechanism}")
        keys = _keys_of(hash_name, salted_password)
        stored_key = hashlib.new(hash_name, keys.client_key).digest()
        return cls(mechanism, salt, iterations, stored_key, keys.server_key)

    @property
    def hash_name(self) -> str:
        """Return the name of the mechanism's hash."""
        return SCRAM_HASHES[self.mechanism]

    def check(self, password: str) -> bool:
        """Return whether this is the password. It takes milliseconds, by the iterations, and
        shares nothing: it may run in a thread.

        What cannot be a password takes as long as what is a wrong one.
        """
        try:
            prepared = prepared_password(password)
            possible = True
        except UnacceptableCredentialError:
            prepared = b""
            possible = False
        keys = derived_keys(self.hash_name, prepared, self.salt, self.iterations)
        shown = hashlib.new(self.hash_name, keys.client_key).digest()
        return hmac.compare_digest(shown, self.stored_key) and possible

    def accepts(self, proof: bytes, messages: bytes) -> bool:
        """Return whether the proof was made with the password, for these messages (RFC 5802)."""
        signature = hmac.digest(self.stored_key, messages, self.hash_name)
        if len(proof) != len(signature):
            return False
        shown = hashlib.new(self.hash_name, xor(proof, signature)).digest()
        return hmac.compare_digest(shown, self.stored_key)

    def signature(self, messages: bytes) -> bytes:
        """Return what shows the client that this end has the credential (RFC 5802)."""
        return hmac.digest(self.server_key, messages, self.hash_name)


class KeptKeys:
    """It keeps the keys that a client has derived last, so that it connects again without the
    milliseconds that a derivation takes. A client has one, for all of its connections."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bytes, bytes, int], ScramKeys] = {}

    def of(self, hash_name: str, prepared: bytes, salt: bytes, iterations: int) -> ScramKeys:
        """Return the keys of a prepared password, derived now if they are not the last ones."""
        origin = (hash_name, prepared, salt, iterations)
        keys = self._kept.get(origin)
        if keys is None:
            keys = derived_keys(*origin)
            self._kept = {origin: keys}
        return keys


def derived_keys(hash_name: str, prepared: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """Return the keys of a prepared password (RFC 5802, section 3)."""
    return _keys_of(hash_name, hashlib.pbkdf2_hmac(hash_name, prepared, salt, iterations))


def _keys_of(hash_name: str, salted: bytes) -> ScramKeys:
    return ScramKeys(
        hmac.digest(salted, b"Client Key", hash_name), hmac.digest(salted, b"Server Key", hash_name)
    )


def proof_of(keys: ScramKeys, messages: bytes, hash_name: str) -> bytes:
    """Return what shows the server that this end has the password (RFC 5802, section 3)."""
    stored_key = hashlib.new(hash_name, keys.client_key).digest()
    return xor(keys.client_key, hmac.digest(stored_key, messages, hash_name))


def stand_in(cluster_secret: bytes, mechanism: Mechanism, name: str) -> ScramCredential:
    """Return a credential for a name that no user has; nobody knows its password.

    The name has the same salt each time, as a user's has, and on every broker. Without the secret
    nobody can tell it from a real one.
    """
    hash_name = SCRAM_HASHES[mechanism]
    salt, stored_key, server_key = (
        hmac.digest(cluster_secret, f"{part}/{mechanism}/{name}".encode(), hash_name)
        for part in ("salt", "stored key", "server key")
    )
    return ScramCredential(mechanism, salt[:SALT_BYTES], ITERATIONS_DEFAULT, stored_key, server_key)


def xor(one: bytes, other: bytes) -> bytes:
    """Return the exclusive or of two strings of bytes of one length."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
