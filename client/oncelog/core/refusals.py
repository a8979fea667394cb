"""A client is told here which brokers refuse it, or which it refuses: by TLS or authentication.

Rules
-----
* Trying again alone changes nothing, but a server's files may be in the middle of a change. So the
  third failure in a row at one address is told, as an error that nobody tries again; those before
  it are failures like any other.
* Failures of the network in between neither count nor begin the count anew. A connection does.
"""

from __future__ import annotations

from collections.abc import Collection

from oncelog.config import Address
from oncelog.core.identification import NotAuthenticatedError
from oncelog.errors import AuthenticationFailedError, HandshakeError, TlsError
from oncelog_protocol.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from oncelog_runtime import tls_errors

ATTEMPTS = 3

_REMEDIES = {
    IllegalSaslStateError: "give security= with a user, as the brokers want to know who asks",
    SaslAuthenticationFailedError: "check user name and password, or the token; the broker's log"
    " has the reason",
    UnsupportedSaslMechanismError: "take one of the listener's mechanisms",
}


class Refusals:
    """One client counts its refusals here, by address."""

    def __init__(self) -> None:
        self._counts: dict[Address, int] = {}
        self._told: dict[Address, HandshakeError] = {}

    def judge(self, address: Address, error: BaseException) -> HandshakeError | None:
        """Take in how an attempt failed; return what is to be told, or None if that is nothing."""
        refusal = refusal_of(address, error)
        if refusal is None:
            return None
        count = self._counts[address] = self._counts.get(address, 0) + 1
        if count < ATTEMPTS:
            return None
        self._told.pop(address, None)
        self._told[address] = refusal
        return refusal

    def tell(self, address: Address, error: BaseException) -> None:
        """Take in how an attempt failed, and raise what is to be told, if that is anything."""
        refusal = self.judge(address, error)
        if refusal is not None:
            raise refusal from error

    def ended(self, address: Address) -> None:
        """Note that a connection to this address could be used."""
        self._counts.pop(address, None)
        self._told.pop(address, None)

    def keep(self, addresses: Collection[Address]) -> None:
        """Forget all other addresses: nobody connects there any more."""
        for address in [each for each in self._counts if each not in addresses]:
            self.ended(address)

    def forget(self) -> None:
        """Forget all of it, as the client is closed."""
        self._counts.clear()
        self._told.clear()

    @property
    def verdict(self) -> HandshakeError | None:
        """Return the last error that was told of an address, if it still holds there."""
        return next(reversed(self._told.values())).anew() if self._told else None


def refusal_of(address: Address, error: BaseException | None) -> HandshakeError | None:
    """Return a failure of TLS or of authentication in the client's words; None: it is another."""
    if isinstance(error, tls_errors.TlsError):
        return TlsError(str(address), error.cause, error.remedy).because_of(error)
    if isinstance(error, NotAuthenticatedError):
        told = AuthenticationFailedError(str(address), error.cause, error.remedy)
        return told.because_of(error)
    for kind, remedy in _REMEDIES.items():
        if isinstance(error, kind):
            return AuthenticationFailedError(str(address), str(error), remedy).because_of(error)
    return None
