"""A client says by these options how its connections are secured, and who it is.

Rules: what does not fit together is refused when the options are made, in plain words. No secret is
in a ``repr``, in an error or in a log line. Files are read when connections are opened, again for
each: one that is replaced is in use from the next connection on. Nothing weakens verification: the
chain and the name of the broker's certificate are always verified.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field, fields
from typing import Literal

from oncelog.core.identification import (
    Identification,
    PasswordUser,
    TokenMaker,
    TokenUser,
)
from oncelog.core.secured_dialer import SecuredDialer, TlsSource
from oncelog.errors import ConfigurationError
from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl.credential import SCRAM_HASHES, Mechanism
from oncelog_protocol.sasl.gs2 import is_legal_user
from oncelog_protocol.sasl.saslprep import prepared_password
from oncelog_runtime.clock import SystemWallClock, WallClock
from oncelog_runtime.dialer import AuthenticatingDialer, Dialer, PlainDialer, TlsDialer
from oncelog_runtime.entropy import Entropy, SystemEntropy
from oncelog_runtime.host_names import HostNames
from oncelog_runtime.tls_contexts import GivenTls

__all__ = ["NAMED_OPTIONS", "MechanismOption", "PathOption", "Security", "TokenOption"]

PathOption = str | os.PathLike[str]
TokenOption = str | TokenMaker
"""A function is called on the client's loop whenever a token is needed. One that has to wait, for
an answer of the issuer say, is a coroutine function, and has less than five seconds when a
connection is opened; any other must return at once."""
MechanismOption = Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]

_FILES_OF_TLS = ("ca_file", "certificate_file", "key_file", "key_password_file")
_TLS = (*_FILES_OF_TLS, "server_name", "ssl_context")
_PATHS = (*_FILES_OF_TLS, "password_file", "token_file")
_USER = ("username", "password", "password_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """It says how a client's connections are secured: ``Producer(..., security=Security(...))``.

    With any of the options of TLS, or ``tls=True``, connections are encrypted and the certificates
    of brokers are verified. A user, a token or a certificate says who the client is.

    :raises ConfigurationError: options that do not fit together; the text says what to change.
    """

    ca_file: PathOption | None = None
    """It has the CAs that sign the certificates of brokers, as PEM; else the system's are asked."""
    certificate_file: PathOption | None = None
    """It has this client's certificate, and those that lead to its CA, as PEM."""
    key_file: PathOption | None = None
    key_password_file: PathOption | None = None
    server_name: str | None = None
    """The certificates of brokers must have this name, instead of the host that is dialled."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: PathOption | None = None
    """A line end at its end is no part of the password."""
    mechanism: MechanismOption | None = None
    """How the user is proven; without it by SCRAM-SHA-256, or SCRAM-SHA-512 if the brokers have
    that alone. With a token it is OAUTHBEARER."""
    token: TokenOption | None = field(default=None, repr=False)
    """It is sent as it is (RFC 7628): a text, or a function that returns one which still holds, and
    may be a coroutine function. It is asked again before a session ends (KIP-368)."""
    token_file: PathOption | None = None
    """The token is in this file, which is read again each time. Its owner alone may read it."""
    tls: Literal[True] | None = None
    """True asks for TLS without another option of it."""
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)
    """It is used as it is, instead of files. It must verify what a context of files verifies."""

    def __post_init__(self) -> None:
        if all(getattr(self, each.name) is None for each in fields(self)):
            raise ConfigurationError(
                "security says nothing: give ca_file, or tls=True for a CA that the system knows,"
                " or a user; without security nothing is encrypted"
            )
        if self.tls not in (None, True):
            raise ConfigurationError(
                f"security: tls={self.tls!r}: must be True; leave it out, with all options of TLS,"
                " to do without encryption"
            )
        self._check_types()
        self._check_context()
        self._check_certificate()
        self._check_user()
        if self.needs_tls and not self.encrypted:
            raise ConfigurationError(
                f"security: {self._mechanism_named()} shows a secret to whoever listens, so it"
                " needs TLS: give ca_file, or tls=True for a CA that the system knows"
            )

    @property
    def encrypted(self) -> bool:
        """Return whether connections are encrypted."""
        return self.tls is True or any(getattr(self, each) is not None for each in _TLS)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Return the mechanisms of SASL that are tried, the best first; none: there is no user."""
        if self.mechanism is not None:
            return (Mechanism(self.mechanism),)
        if self.has_token:
            return (Mechanism.OAUTHBEARER,)
        return tuple(SCRAM_HASHES) if self.username is not None else ()

    @property
    def has_token(self) -> bool:
        """Return whether a token says who the client is."""
        return self.token is not None or self.token_file is not None

    @property
    def needs_tls(self) -> bool:
        """Return whether a mechanism shows a secret."""
        return any(each.needs_encryption for each in self.mechanisms)

    def dialer(
        self,
        *,
        entropy: Entropy | None = None,
        wall_clock: WallClock | None = None,
        names: HostNames | None = None,
    ) -> Dialer:
        """Return what opens connections by these options; no file is read yet.

        :param entropy: nonces come from it, which nobody may guess.
        :param wall_clock: it says whether this client's certificate is valid.
        :param names: it knows the addresses of hosts; without it the loop looks them up each time.
        """
        dialer: Dialer = PlainDialer(names)
        if self.ssl_context is not None:
            dialer = TlsDialer(
                GivenTls(self.ssl_context, server_name=self.server_name), names=names
            )
        elif self.encrypted:
            dialer = SecuredDialer(
                TlsSource(
                    ca_file=_text(self.ca_file),
                    certificate_file=_text(self.certificate_file),
                    key_file=_text(self.key_file),
                    key_password_file=_text(self.key_password_file),
                    server_name=self.server_name,
                    wall_clock=wall_clock or SystemWallClock(),
                    names=names,
                )
            )
        if not self.mechanisms:
            return dialer
        user: PasswordUser | TokenUser = TokenUser(self.token, _text(self.token_file))
        if self.username is not None:
            user = PasswordUser(self.username, self.password, _text(self.password_file))
        found = Identification(
            self.mechanisms,
            user,
            encrypted=self.encrypted,
            entropy=(entropy or SystemEntropy()).fork("sasl"),
        )
        return AuthenticatingDialer(dialer, found.begin, found.chance)

    def _mechanism_named(self) -> str:
        return self.mechanisms[0] if self.mechanism is not None else "a token"

    def _check_types(self) -> None:
        for name in ("server_name", "username"):
            _check(name, getattr(self, name), (str,), "a text that is not empty")
        for name in _PATHS:
            _check(name, getattr(self, name), (str, os.PathLike), "the path of a file")
        if self.password is not None and not isinstance(self.password, str):
            raise ConfigurationError("security: password must be text")
        token = self.token
        if token is not None and not ((isinstance(token, str) and token) or callable(token)):
            raise ConfigurationError("security: token must be text, or a function that returns it")
        if self.mechanism is not None and self.mechanism not in list(Mechanism):
            allowed = ", ".join(Mechanism)
            raise ConfigurationError(
                f"security: mechanism={self.mechanism!r:.80}: must be one of {allowed}"
            )

    def _check_context(self) -> None:
        given: object = self.ssl_context
        if given is None:
            return
        if not isinstance(given, ssl.SSLContext):
            kind = type(given).__name__
            raise ConfigurationError(f"security: ssl_context must be an ssl.SSLContext, not {kind}")
        named = [each for each in _FILES_OF_TLS if getattr(self, each) is not None]
        if named:
            raise ConfigurationError(
                f"security: ssl_context and {named[0]}: load the file into the context, or leave"
                " the context out"
            )
        try:
            GivenTls(given)
        except ValueError as error:
            raise ConfigurationError(f"security: ssl_context: {error}") from None

    def _check_certificate(self) -> None:
        if (self.certificate_file is None) != (self.key_file is None):
            given, other = "certificate_file", "key_file"
            if self.certificate_file is None:
                given, other = other, given
            raise ConfigurationError(
                f"security: {given} without {other}: a certificate and its key go together"
            )
        if self.key_password_file is not None and self.key_file is None:
            raise ConfigurationError("security: key_password_file without key_file")

    def _check_user(self) -> None:
        _check_together(self)
        if self.username is None:
            return
        if not is_legal_user(self.username):
            raise ConfigurationError(
                f"security: username={self.username!r:.80}: no user can have this name: 1 to 128"
                " letters, digits and . _ @ + -"
            )
        if self.password is not None:
            try:
                prepared_password(self.password)
            except UnacceptableCredentialError as error:
                raise ConfigurationError(f"security: password: {error}") from None


NAMED_OPTIONS = tuple(each.name for each in fields(Security) if each.name != "ssl_context")
"""These options may be said by a text, on a command line or in a file."""


def _check_together(given: Security) -> None:
    """Raise ConfigurationError unless user, password, token and mechanism belong together."""
    named = [each for each in _USER if getattr(given, each) is not None]
    if given.password is not None and given.password_file is not None:
        raise ConfigurationError("security: password and password_file: give one of them")
    if given.token is not None and given.token_file is not None:
        raise ConfigurationError("security: token and token_file: give one of them")
    if given.has_token and named:
        raise ConfigurationError(f"security: token and {named[0]}: the token says who this is")
    if named and given.username is None:
        raise ConfigurationError(f"security: {named[0]} without username: whose is it?")
    if named == ["username"]:
        raise ConfigurationError(
            "security: username without a password: give password_file, or password"
        )
    if given.mechanism is None:
        return
    by_token = given.mechanism == Mechanism.OAUTHBEARER
    if by_token and not given.has_token:
        raise ConfigurationError(
            f"security: mechanism={given.mechanism!r} needs a token: give token_file, or token"
        )
    if not by_token and given.username is None:
        raise ConfigurationError(
            f"security: mechanism={given.mechanism!r} needs username and password"
        )


def _check(name: str, value: object, kinds: tuple[type, ...], what: str) -> None:
    if value is not None and (not isinstance(value, kinds) or value == ""):
        raise ConfigurationError(f"security: {name}={value!r:.80}: must be {what}")


def _text(path: PathOption | None) -> str | None:
    return None if path is None else os.fspath(path)
