"""Tests take their certificates from a CA of their own, and contexts that trust it."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import GeneralName, ObjectIdentifier

from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.dialer import TlsDialer
from oncelog_runtime.tls_contexts import ClientTls, TlsFiles

__all__ = ["Authority", "Papers"]


class Authority:
    """It is a CA, a new one if none is given, and the contexts of both sides that know it."""

    def __init__(self, ca: trustme.CA | None = None) -> None:
        self.ca = trustme.CA(key_type=trustme.KeyType.ECDSA) if ca is None else ca

    def issue(self, *names: str, common_name: str | None = None) -> trustme.LeafCert:
        """Return a certificate for these names: hosts, addresses or URIs."""
        return self.ca.issue_cert(*names, common_name=common_name, key_type=trustme.KeyType.ECDSA)

    def server(
        self, *names: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, trusting: bool = False
    ) -> ssl.SSLContext:
        """Return the context of a server of these names; ``trusting``: it wants certificates."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        self.issue(*(names or ("localhost", "127.0.0.1"))).configure_cert(context)
        if trusting:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ca.configure_trust(context)
        return context

    def client(self) -> ssl.SSLContext:
        """Return the context of a client that trusts this CA alone."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.ca.configure_trust(context)
        return context

    def odd(
        self,
        *names: GeneralName,
        subject: Sequence[tuple[ObjectIdentifier, str]] = (),
        purposes: Sequence[ObjectIdentifier] = (),
        begins: datetime | None = None,
        ends: datetime | None = None,
    ) -> trustme.LeafCert:
        """Return a certificate that trustme would not issue."""
        now = datetime.now(UTC)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(kind, text) for kind, text in subject]))
            .issuer_name(self._certificate().subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins or now - timedelta(days=1))
            .not_valid_after(ends or now + timedelta(days=1))
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if purposes:
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        issued = builder.sign(self._key(), SHA256())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        return trustme.LeafCert(private, issued.public_bytes(Encoding.PEM), [])

    def revocations(self, *leaves: trustme.LeafCert) -> bytes:
        """Return a list, in PEM, that revokes these certificates."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._certificate().subject)
            .last_update(now - timedelta(days=1))
            .next_update(now + timedelta(days=1))
        )
        for leaf in leaves:
            serial = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number
            entry = x509.RevokedCertificateBuilder(serial, now - timedelta(hours=1))
            builder = builder.add_revoked_certificate(entry.build())
        return builder.sign(self._key(), SHA256()).public_bytes(Encoding.PEM)

    def _certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.ca.cert_pem.bytes())

    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key


class Papers:
    """They are files of certificates that one CA issues."""

    def __init__(self, directory: Path, authority: Authority | None = None) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.authority = Authority() if authority is None else authority
        self.ca_file = str(directory / "ca.pem")
        self.authority.ca.cert_pem.write_to_path(self.ca_file)

    def issue(self, name: str, *hosts: str) -> tuple[str, str]:
        """Write the certificate of a common name and its key; return both paths."""
        return self.write(name, self.authority.issue(*(hosts or ("127.0.0.1",)), common_name=name))

    def write(self, name: str, issued: trustme.LeafCert) -> tuple[str, str]:
        """Put the files of a certificate in place, each at once."""
        paths = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        blobs = issued.cert_chain_pems[0], issued.private_key_pem
        for path, blob in zip(paths, blobs, strict=True):
            new = path.with_suffix(".new")
            blob.write_to_path(str(new))
            new.chmod(0o600)
            new.rename(path)
        return str(paths[0]), str(paths[1])

    def tls(self, name: str) -> dict[str, Any]:
        """Return the settings of a listener with the certificate of this name."""
        certificate, key = self.issue(name)
        return {
            "tls_certificate_file": certificate,
            "tls_key_file": key,
            "tls_client_ca_file": self.ca_file,
            "tls_client_auth": "required",
            "tls_principal": "cn",
        }

    def dialer(self, name: str | None = None) -> TlsDialer:
        """Return the dialer of a client, which shows the certificate of this name."""
        certificate, key = (None, None) if name is None else self.issue(name)
        files = TlsFiles(
            min_version="1.3", certificate_file=certificate, key_file=key, ca_file=self.ca_file
        )
        return TlsDialer(ClientTls(files, SystemWallClock()))
