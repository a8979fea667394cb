"""A directory holds a CA and the certificates that it has issued, all as PEM.

::

    <directory>/ca.pem, ca.key          the CA; its key signs, and no cluster needs it to run
    <directory>/<name>.pem, <name>.key  a broker or a client

Rules: keys are for their owner alone (0600), certificates for everybody (0644). Nothing is written
before everything that is asked for can be made, and each file comes into its place whole. The CA is
never replaced: who wants another takes another directory. A certificate names its user by the URI
``oncelog:NAME``, a broker's its hosts as well; a client's is no good for a server.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from oncelog_cli.exits import CommandError, UsageError

CA = "ca"
"""It is the name of the CA's files, and so nobody else's."""
CA_DAYS = 3650
USER_SCHEME = "oncelog:"
"""A URI must have a scheme; the brokers take what follows this one for the user's name."""
EARLIER = timedelta(hours=1)
"""Certificates are valid from a little earlier on, for machines whose clocks are behind."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_][a-z0-9_-]{0,62})*")


@dataclass(frozen=True, slots=True)
class Holder:
    """A certificate is for this broker, which has hosts, or for this client, which has none."""

    name: str
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name == CA:
            raise UsageError(
                f"{self.name!r:.80} is no name for a certificate: 1 to 64 letters, digits and"
                f" . _ @ + -, the first a letter or digit, and not {CA!r}"
            )
        for host in self.hosts:
            if not _is_address(host) and not _HOST.fullmatch(host):
                raise UsageError(
                    f"{host!r:.80} is no host for a certificate: a DNS name in lower case or an"
                    " address, without a port"
                )


def parse_broker(text: str) -> Holder:
    """Return what ``NAME=HOST[,HOST...]`` says.

    :raises UsageError: it is not that.
    """
    name, _, hosts = text.partition("=")
    found = tuple(host.strip().strip("[]").lower() for host in hosts.split(",") if host.strip())
    if not found:
        raise UsageError(f"--broker {text!r}: expected NAME=HOST[,HOST...]")
    return Holder(name.strip(), tuple(dict.fromkeys(found)))


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate was made: for whom, until when, and where its files are."""

    name: str
    use: str
    """"ca", "broker" or "client"."""
    hosts: tuple[str, ...]
    not_after: datetime
    certificate_file: Path
    key_file: Path


class CertificateDirectory:
    """It has one CA and the certificates that the CA has issued.

    :param now: a time with its zone; certificates are valid from then on.
    """

    def __init__(self, directory: Path, now: datetime) -> None:
        self.directory = directory
        self._now = now

    @property
    def ca_file(self) -> Path:
        """Return the path of the CA's certificate, which whoever verifies is given."""
        return self.directory / f"{CA}.pem"

    def certificate_file(self, name: str) -> Path:
        """Return the path of a certificate."""
        return self.directory / f"{name}.pem"

    def key_file(self, name: str) -> Path:
        """Return the path of a private key."""
        return self.directory / f"{name}.key"

    def make(self, holders: Sequence[Holder], *, days: int, force: bool = False) -> list[Issued]:
        """Make certificates, and a CA if there is none; return all that was made.

        :param days: so long they are valid, but no longer than the CA.
        :param force: replace those that are there. The CA stays.
        :raises UsageError: a name is asked for twice.
        :raises CommandError: something is there already, or the CA is not whole.
        """
        names = [holder.name for holder in holders]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(f"{twice[0]!r} is asked for twice: each certificate has its own name")
        for name in names if not force else ():
            for path in (self.certificate_file(name), self.key_file(name)):
                if path.exists():
                    raise CommandError(
                        f"{path} is there already. Remedy: --renew {name} for the same with a new"
                        " date, or --force to replace it"
                    )
        if self.ca_file.exists() or self.key_file(CA).exists():
            authority, made = self._authority(), []
        else:
            authority, issued = self._new_authority()
            made = [issued]
        return made + [self._issue(authority, holder, days) for holder in holders]

    def renew(self, names: Sequence[str], *, days: int) -> list[Issued]:
        """Replace certificates by those of the same names and hosts, with new keys.

        :raises CommandError: one is not there or not from this CA, or the CA is not whole.
        """
        authority = self._authority()
        holders = [self._holder(authority, name) for name in dict.fromkeys(names)]
        return [self._issue(authority, holder, days) for holder in holders]

    # ------------------------------------------------------------------ what is there

    def _authority(self) -> _Authority:
        certificate, key = read_certificates(self.ca_file)[0], read_key(self.key_file(CA))
        if certificate.public_key() != key.public_key():
            raise CommandError(
                f"{self.key_file(CA)} is not the key of {self.ca_file}. Remedy: put the pair"
                " there, or take another directory"
            )
        if certificate.not_valid_after_utc <= self._now:
            raise CommandError(
                f"the CA {self.ca_file} has expired. Remedy: make a new one in another directory,"
                " and have both trusted until all certificates are replaced"
            )
        return _Authority(certificate, key)

    def _holder(self, authority: _Authority, name: str) -> Holder:
        certificate = read_certificates(self.certificate_file(name))[0]
        if not is_issued_by(certificate, authority.certificate):
            raise CommandError(
                f"{self.certificate_file(name)} is not from {self.ca_file}. Remedy: renew it where"
                " its CA is"
            )
        return Holder(name, tuple(hosts_of(certificate)))

    # ------------------------------------------------------------------ what is made

    def _new_authority(self) -> tuple[_Authority, Issued]:
        key = ec.generate_private_key(ec.SECP256R1())
        serial = x509.random_serial_number()
        # Two clusters' CAs have different names, so that each is found where both are trusted.
        subject = _named(f"oncelog CA {serial % 0xFFFFFFFF:08x}")
        ends = self._now + timedelta(days=CA_DAYS)
        builder = (
            x509.CertificateBuilder(subject, subject, key.public_key(), serial)
            .not_valid_before(self._now - EARLIER)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(_key_id(key), critical=False)
        )
        certificate = builder.sign(key, SHA256())
        return _Authority(certificate, key), self._write(CA, "ca", (), certificate, key)

    def _issue(self, authority: _Authority, holder: Holder, days: int) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if holder.hosts:
            uses.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        ends = self._now + timedelta(days=days)
        signer = authority.certificate
        certificate = (
            x509.CertificateBuilder(signer.subject, _named(holder.name), key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - EARLIER)
            .not_valid_after(min(ends, signer.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(_names(holder), critical=False)
            .add_extension(_key_id(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
                critical=False,
            )
            .sign(authority.key, SHA256())
        )
        use = "broker" if holder.hosts else "client"
        return self._write(holder.name, use, holder.hosts, certificate, key)

    def _write(
        self,
        name: str,
        use: str,
        hosts: tuple[str, ...],
        certificate: x509.Certificate,
        key: ec.EllipticCurvePrivateKey,
    ) -> Issued:
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        # A broker that looks in between sees a pair that does not fit, and keeps the old one.
        _put(self.key_file(name), private, 0o600)
        _put(self.certificate_file(name), certificate.public_bytes(Encoding.PEM), 0o644)
        ends = certificate.not_valid_after_utc
        return Issued(name, use, hosts, ends, self.certificate_file(name), self.key_file(name))


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


# -- reading -------------------------------------------------------------------------------------


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Return the certificates of a file, at least one.

    :raises CommandError: it cannot be read, or has none.
    """
    content = _content(path)
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise CommandError(f"{path} holds no certificate as PEM ({error})") from None


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return the private key of the CA.

    :raises CommandError: it cannot be read, or is none of this kind.
    """
    try:
        key = load_pem_private_key(_content(path), None)
    except (TypeError, ValueError) as error:
        raise CommandError(f"{path} holds no private key as PEM ({error})") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CommandError(f"{path} holds a key of another kind. Remedy: take another directory")
    return key


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether a CA has signed this certificate itself."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names and addresses that a certificate is for."""
    names = _alternative(certificate)
    found = names.get_values_for_type(x509.DNSName)
    return [*found, *map(str, names.get_values_for_type(x509.IPAddress))]


def user_of(certificate: x509.Certificate) -> str | None:
    """Return the user whom brokers see in it by default; None if it does not name exactly one."""
    found = _alternative(certificate).get_values_for_type(x509.UniformResourceIdentifier)
    return found[0].removeprefix(USER_SCHEME) if len(found) == 1 else None


def _alternative(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        kind = x509.SubjectAlternativeName
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None


# -- writing -------------------------------------------------------------------------------------


def _put(path: Path, content: bytes, mode: int) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _names(holder: Holder) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([*_host_names(holder.hosts), _user_name(holder.name)])


def _host_names(hosts: Iterable[str]) -> Iterable[x509.GeneralName]:
    for host in hosts:
        if _is_address(host):
            yield x509.IPAddress(ipaddress.ip_address(host))
        else:
            yield x509.DNSName(host)


def _user_name(name: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(USER_SCHEME + name)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _key_id(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())
