"""Tests take their certificates from a CA of their own, and contexts that trust it."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

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

__all__ = ["Authority"]


class Authority:
    """It is a CA and the contexts of both sides that know it."""

    def __init__(self) -> None:
        self.ca = trustme.CA(key_type=trustme.KeyType.ECDSA)

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
