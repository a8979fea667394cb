"""Contexts of TLS are made from files, which may be replaced while they are in use.

Rules:

- each connection takes the context that there is when it begins; a context never changes;
- ``refresh`` looks at the files: what loads and fits is for new connections, what does not is told,
  and the old stays;
- clients verify chain and name, always: the subject alternative names alone, never the common name;
- a server asks only the CAs of its ``ca_file`` about clients. The system's CAs are for a client
  that was not told another one;
- TLS 1.2 has only ECDHE with AEAD suites; no version has compression, renegotiation or tickets.

Files are read by their paths and not through the port of files: ``ssl`` loads chains, keys and
revocation lists by path only, and a path of a simulated file system would mean nothing to it.
"""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from oncelog_runtime.certificates import (
    CertificateFacts,
    certificate_facts,
    pem_blocks,
    revoked_certificates,
)
from oncelog_runtime.clock import WallClock
from oncelog_runtime.tls import TlsProtocol
from oncelog_runtime.tls_errors import TlsError

__all__ = ["ClientAuth", "ClientTls", "GivenTls", "ServerTls", "TlsFiles", "TlsFilesError"]

ClientAuth = Literal["none", "optional", "required"]

FILE_BYTES_MAX = 64 << 20
"""A revocation list of a million certificates has 40 MB."""

SECONDS_A_DAY = 86_400.0

_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
SUITES_OF_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!PSK"
OnHandshake = Callable[[ssl.SSLObject], None]


class TlsFilesError(TlsError):
    """Files do not make a context: they do not load, do not fit, or are not valid now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """These files, all of them PEM, and the lowest version make a context."""

    min_version: Literal["1.2", "1.3"]
    certificate_file: str | None = None
    """It has this side's certificate, and those that lead to its CA."""
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    """It has the CAs that sign the certificates of peers: a server's ``client_ca_file``."""
    crl_file: str | None = None

    def paths(self) -> list[str]:
        """Return the paths of all files that are named."""
        named = (self.certificate_file, self.key_file, self.ca_file, self.crl_file)
        return [path for path in named if path is not None]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """It is what the files made, and what was in them."""

    context: ssl.SSLContext
    contents: dict[str, bytes]
    chain: tuple[CertificateFacts, ...]
    revoked: frozenset[tuple[bytes, int]]


class _Contexts:
    """Both sides keep their context like this."""

    def __init__(
        self, files: TlsFiles, wall_clock: WallClock, make: Callable[[], ssl.SSLContext]
    ) -> None:
        """``make`` returns a context with what one side alone has."""
        if (files.certificate_file is None) != (files.key_file is None):
            text = "a certificate and its key go together"
            raise TlsFilesError(text, "set both certificate_file and key_file")
        if files.crl_file is not None and files.ca_file is None:
            text = "there is a list of revoked certificates, but no CA"
            raise TlsFilesError(text, "name the CA that made the list")
        self._files = files
        self._wall_clock = wall_clock
        self._make = make
        self._loaded = self._load(self._read())

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now."""
        return self._loaded.context

    def refresh(self) -> bool:
        """Look at the files, which takes a moment; return whether new connections get new ones.

        :raises TlsFilesError: what is there now does not load or fit; the old stays in use.
        """
        contents = self._read()
        if contents == self._loaded.contents:
            return False
        self._loaded = self._load(contents)
        return True

    def days_left(self) -> float | None:
        """Return for how many days the certificate in use is still valid, with those that lead to
        its CA; below 0 it has expired. None: there is none."""
        ends = [facts.not_after_s for facts in self._loaded.chain]
        return (min(ends) - self._now_s()) / SECONDS_A_DAY if ends else None

    def is_revoked(self, certificate: bytes) -> bool:
        """Return whether the present list revokes a peer's certificate, which is in DER.

        :raises ValueError: this is no certificate.
        """
        facts = certificate_facts(certificate)
        return (facts.issuer, facts.serial) in self._loaded.revoked

    def _now_s(self) -> float:
        return self._wall_clock.now_ms() / 1000

    def _read(self) -> dict[str, bytes]:
        return {path: _content(path) for path in self._files.paths()}

    def _load(self, contents: dict[str, bytes]) -> _Loaded:
        files = self._files
        chain: tuple[CertificateFacts, ...] = ()
        revoked: frozenset[tuple[bytes, int]] = frozenset()
        context = self._make()
        context.minimum_version = _VERSIONS[files.min_version]
        context.set_ciphers(SUITES_OF_1_2)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        if files.certificate_file is not None:
            chain = self._load_chain(context, contents)
        if files.ca_file is not None:
            _load_peers(context, files.ca_file, contents, "CERTIFICATE")
        if files.crl_file is not None:
            lists = _load_peers(context, files.crl_file, contents, "X509 CRL")
            revoked = frozenset().union(*(revoked_certificates(each) for each in lists))
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        if self._read() != contents:
            text = "files of TLS changed while they were read"
            raise TlsFilesError(text, "nothing: they are read again")
        return _Loaded(context, contents, chain, revoked)

    def _load_chain(
        self, context: ssl.SSLContext, contents: dict[str, bytes]
    ) -> tuple[CertificateFacts, ...]:
        files = self._files
        path, key = files.certificate_file, files.key_file
        assert path is not None
        assert key is not None
        try:
            blocks = pem_blocks(contents[path], "CERTIFICATE")
            pem_blocks(contents[key], "PRIVATE KEY")
            chain = tuple(certificate_facts(block) for block in blocks)
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, key, password=files.key_password or "")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                text = f"the key {key} does not fit the certificate {path}"
                raise TlsFilesError(text, "put both files there, of one pair") from error
            text = f"the certificate {path} or its key {key} cannot be read"
            raise TlsFilesError(text, "see that both are PEM, and the password") from error
        except ValueError as error:
            text = f"the certificate {path} or its key {key} is not whole ({error})"
            raise TlsFilesError(text, "replace files by renaming whole ones") from error
        now_s = self._now_s()
        if any(now_s >= facts.not_after_s for facts in chain):
            raise TlsFilesError(f"the certificate {path} has expired", "renew it")
        if any(now_s < facts.not_before_s for facts in chain):
            text = f"the certificate {path} is not valid yet"
            raise TlsFilesError(text, "wait, or set this machine's clock right")
        return chain


class ServerTls(_Contexts):
    """It has the context for connections that are accepted."""

    def __init__(self, files: TlsFiles, client_auth: ClientAuth, wall_clock: WallClock) -> None:
        """Load the files.

        :raises TlsFilesError: they do not load, fit or suffice.
        """
        if files.certificate_file is None:
            raise TlsFilesError("a server needs a certificate", "set certificate_file")
        if client_auth != "none" and files.ca_file is None:
            text = "certificates of clients can be verified by no CA"
            raise TlsFilesError(text, "set client_ca_file; the system's CAs are not taken for it")
        self._client_auth = _CLIENT_AUTH[client_auth]
        super().__init__(files, wall_clock, self._new_context)

    def protect(
        self, inner: asyncio.BufferedProtocol, on_handshake: OnHandshake | None = None
    ) -> TlsProtocol:
        """Return what stands between a socket that was accepted and its protocol."""
        return TlsProtocol(inner, self.context, on_handshake=on_handshake)

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = self._client_auth
        context.num_tickets = 0
        return context


class _OpenedTls(ABC):
    """It protects connections that are opened."""

    _server_name: str | None
    """It is verified instead of the host that is dialled."""

    @property
    @abstractmethod
    def context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now."""

    def protect(
        self,
        inner: asyncio.BufferedProtocol,
        host: str,
        on_handshake: OnHandshake | None = None,
    ) -> TlsProtocol:
        """Return what stands between a socket that is connected to this host and its protocol."""
        name = self._server_name or _name_of(host)
        return TlsProtocol(inner, self.context, server_hostname=name, on_handshake=on_handshake)


class ClientTls(_Contexts, _OpenedTls):
    """It has the context for connections that are opened."""

    def __init__(
        self, files: TlsFiles, wall_clock: WallClock, *, server_name: str | None = None
    ) -> None:
        """Load the files. ``server_name`` is verified instead of the host that is dialled.

        :raises TlsFilesError: they do not load or fit.
        """
        self._server_name = server_name
        self._system_cas = files.ca_file is None
        super().__init__(files, wall_clock, self._new_context)

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.hostname_checks_common_name = False
        if self._system_cas:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context


class GivenTls(_OpenedTls):
    """It has one context for connections that are opened, which somebody else has made.

    :raises ValueError: the context verifies less than this module's own ones; the text has the
        line that puts it right.
    """

    def __init__(self, context: ssl.SSLContext, *, server_name: str | None = None) -> None:
        if context.verify_mode is not ssl.CERT_REQUIRED or not context.check_hostname:
            raise ValueError(
                "it does not verify certificates of brokers and their names: make it by"
                " ssl.create_default_context()"
            )
        if context.hostname_checks_common_name:
            raise ValueError(
                "it takes a common name for a host's name: set hostname_checks_common_name = False"
            )
        if context.minimum_version < ssl.TLSVersion.TLSv1_2:
            raise ValueError(
                "it allows versions below TLS 1.2: set minimum_version = ssl.TLSVersion.TLSv1_2"
            )
        self._context = context
        self._server_name = server_name

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context of all connections."""
        return self._context

    def refresh(self) -> bool:
        """Return that new connections get no other context."""
        return False


def _name_of(host: str) -> str:
    """Return the name in certificates: they have no address's zone, and no dot at the end."""
    return host.partition("%")[0].rstrip(".")


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        text = f"the file {path} cannot be read ({error.strerror})"
        raise TlsFilesError(text, "see that it is there, and who may read it") from error
    if len(content) > FILE_BYTES_MAX:
        raise TlsFilesError(f"the file {path} is too large", "see that it is the right one")
    return content


def _load_peers(
    context: ssl.SSLContext, path: str, contents: dict[str, bytes], name: str
) -> list[bytes]:
    """Load what peers are verified by; return the blocks of the file."""
    try:
        blocks = pem_blocks(contents[path], name)
        if not blocks:
            raise ValueError(f"there is no block {name}")
        context.load_verify_locations(path)
    except (ssl.SSLError, ValueError) as error:
        text = f"the file {path} cannot be used ({error})"
        raise TlsFilesError(text, f"give a file of PEM with whole blocks {name}") from error
    return blocks
