"""PLAIN shows the password to the server, which checks it against the SCRAM entry. Pure.

::

    message := [authzid] NUL name NUL password                               (RFC 4616)

Rules
-----
* Only over TLS: whoever drives the machines sees to it.
* ``authzid`` is empty or the user itself [S2].
* The check takes milliseconds, so it is an outcome of its own: the driver runs it where it stops
  nobody. A name without a user is checked as well, and fails alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl.credential import Mechanism, ScramCredential, stand_in
from oncelog_protocol.sasl.gs2 import is_legal_user
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.saslprep import prepared_password
from oncelog_protocol.sasl.scram_server import CredentialLookup


@dataclass(frozen=True, slots=True)
class PasswordCheck:
    """The exchange waits for a check that takes milliseconds, and shares nothing with anybody."""

    name: str
    password: str = field(repr=False)
    credential: ScramCredential
    is_user: bool

    def holds(self) -> bool:
        """Return whether it is the user's password. It may run in a thread."""
        return self.credential.check(self.password) and self.is_user


class PlainServer:
    """It is one exchange at the server's end."""

    def __init__(self, look_up: CredentialLookup, cluster_secret: bytes) -> None:
        self._look_up = look_up
        self._cluster_secret = cluster_secret
        self._is_over = False
        self._check: PasswordCheck | None = None

    def step(self, data: bytes) -> PasswordCheck | Failed:
        """Take in the message of the client; return what is to be checked."""
        if self._is_over:
            return Failed("a second message of PLAIN")
        self._is_over = True
        try:
            parts = data.decode().split("\0")
        except UnicodeDecodeError:
            return Failed("the message is not UTF-8")
        if len(parts) != 3:
            return Failed("the message is not an authzid, a name and a password")
        authzid, name, password = parts
        if not is_legal_user(name):
            return Failed("no user can have this name")
        if authzid not in ("", name):
            return Failed(f"user {name} wants to be another one")
        nobody = stand_in(self._cluster_secret, Mechanism.SCRAM_SHA_256, name)
        found = self._look_up(Mechanism.SCRAM_SHA_256, name) or self._look_up(
            Mechanism.SCRAM_SHA_512, name
        )
        self._check = PasswordCheck(name, password, found or nobody, found is not None)
        return self._check

    def checked(self, holds: bool) -> Done | Failed:
        """Take in what the check has found; return what comes of it."""
        check, self._check = self._check, None
        if check is None:
            return Failed("nothing was to be checked")
        if not (holds and check.is_user):
            reason = "wrong password" if check.is_user else "no such user"
            return Failed(f"{reason}: {check.name} by PLAIN")
        return Done(check.name)


class PlainClient:
    """It is one exchange at the client's end.

    :raises UnacceptableCredentialError: no user can have the name or the password.
    """

    def __init__(self, name: str, password: str) -> None:
        if not is_legal_user(name):
            raise UnacceptableCredentialError(f"no user can have the name {name!r}")
        prepared_password(password)
        self.mechanism = Mechanism.PLAIN
        self._name = name
        self._password = password

    def start(self) -> bytes:
        """Return the only message."""
        return f"\0{self._name}\0{self._password}".encode()

    def step(self, data: bytes) -> Continue | Done | Failed:
        """Take in the server's consent, which has no data."""
        if data:
            return Failed("the server's message cannot be trusted: PLAIN has no answer")
        return Done(self._name)
