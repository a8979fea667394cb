"""Certificates are read here: whom one names, how long it is valid, and which ones a list revokes.

``ssl`` verifies chains and decodes what a peer has shown. It does not tell how long this side's own
certificate is still valid, nor what a revocation list holds: that is read from the DER, as little
of it as is needed (RFC 5280, 4.1 and 5.1). Signatures are OpenSSL's business.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from oncelog_runtime.tls_errors import TlsError

__all__ = [
    *("CertificateFacts", "PrincipalError", "PrincipalKind", "certificate_facts", "pem_blocks"),
    *("principal_of", "revoked_certificates"),
]

PrincipalKind = Literal["uri", "dns", "cn", "dn"]
"""The setting ``tls.principal``: which part of a certificate is the user."""

PRINCIPAL_CHARACTERS_MAX = 255

URI_OF_USER = "oncelog:"
"""A URI must have a scheme (RFC 5280, 4.2.1.6), and a user's name has none. After this one stands
the name: ``oncelog:app`` is the user ``app``. Any other URI is the user's name as it is."""


class PrincipalError(TlsError):
    """A certificate that was verified names no user, or more than one."""


# -- whom a certificate names --------------------------------------------------------------------


def principal_of(certificate: Mapping[str, Any], kind: PrincipalKind) -> str:
    """Return the user that a verified certificate names, as ``getpeercert`` decodes it.

    A distinguished name is written as by RFC 4514, with the last part first. The URI
    ``oncelog:app`` names the user ``app``; any other URI is the user as it is.

    :raises PrincipalError: there is not exactly one value, or it is empty, too long, or has
        characters that cannot be printed, such as NUL.
    """
    values = _values(certificate, kind)
    if len(values) != 1:
        text = f"the certificate has {len(values)} values of the kind {kind}, not one"
        raise PrincipalError(text, "issue one that names one user, or change tls.principal")
    (value,) = values
    if not 1 <= len(value) <= PRINCIPAL_CHARACTERS_MAX or not value.isprintable():
        text = f"the certificate has a value of the kind {kind} that cannot be a user"
        remedy = f"issue one with a name of 1 to {PRINCIPAL_CHARACTERS_MAX} printable characters"
        raise PrincipalError(text, remedy)
    return value


def _values(certificate: Mapping[str, Any], kind: PrincipalKind) -> list[str]:
    if kind in ("uri", "dns"):
        names = certificate.get("subjectAltName", ())
        values = [value for name, value in names if name == kind.upper()]
        return [each.removeprefix(URI_OF_USER) for each in values] if kind == "uri" else values
    subject = certificate.get("subject", ())
    if kind == "cn":
        return [value for part in subject for name, value in part if name == "commonName"]
    return [_written(subject)] if subject else []


_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def _written(subject: Any) -> str:
    parts = [
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in subject
    ]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    """Return a value in which no character can be taken for the end of it."""
    escaped = re.sub(r'([,+"\\<>;=])', r"\\\1", value)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    if len(value) > 1 and value.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    return escaped


# -- what DER says -------------------------------------------------------------------------------


class CertificateFacts(NamedTuple):
    """This is what a certificate says of itself."""

    issuer: bytes
    """It is the name of the CA, in DER."""
    serial: int
    not_before_s: float
    """It is in seconds since 1970, as the next one."""
    not_after_s: float


class _Part(NamedTuple):
    """It is a value in DER: its tag, and where it begins, where its content begins and ends."""

    tag: int
    at: int
    start: int
    end: int


SEQUENCE = 0x30
INTEGER = 0x02
UTC_TIME = 0x17
GENERALIZED_TIME = 0x18
VERSION = 0xA0


def certificate_facts(der: bytes) -> CertificateFacts:
    """Return what a certificate says of itself. Its signature is not looked at.

    :raises ValueError: this is no certificate.
    """
    (certificate,) = _parts(der, 0, len(der))
    body = _next(_parts(der, certificate.start, certificate.end))
    fields = _parts(der, body.start, body.end)
    serial = _next(fields)
    if serial.tag == VERSION:
        serial = _next(fields)
    _algorithm, issuer, validity = _next(fields), _next(fields), _next(fields)
    begin, end = _parts(der, validity.start, validity.end)
    return CertificateFacts(
        der[issuer.at : issuer.end], _integer(der, serial), _time_s(der, begin), _time_s(der, end)
    )


def revoked_certificates(der: bytes) -> frozenset[tuple[bytes, int]]:
    """Return issuer and serial of each certificate in a revocation list.

    :raises ValueError: this is no revocation list.
    """
    (whole,) = _parts(der, 0, len(der))
    body = _next(_parts(der, whole.start, whole.end))
    fields = [part for part in _parts(der, body.start, body.end) if part.tag != INTEGER]
    if len(fields) < 3:
        raise ValueError("a revocation list has more fields")
    issuer = der[fields[1].at : fields[1].end]
    found = set()
    for part in fields[2:]:
        if part.tag == SEQUENCE:
            for entry in _parts(der, part.start, part.end):
                serial = _next(_parts(der, entry.start, entry.end))
                found.add((issuer, _integer(der, serial)))
    return frozenset(found)


def _parts(der: bytes, start: int, end: int) -> Iterator[_Part]:
    """Yield the values that lie beside each other in a range.

    :raises ValueError: they do not fit into it.
    """
    while start < end:
        at = start
        if end - at < 2:
            raise ValueError("DER is cut off")
        tag, length = der[at], der[at + 1]
        start += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or end - start < count:
                raise ValueError("DER has a length that cannot be")
            length = int.from_bytes(der[start : start + count])
            start += count
        if length > end - start:
            raise ValueError("DER is cut off")
        yield _Part(tag, at, start, start + length)
        start += length


def _next(parts: Iterator[_Part]) -> _Part:
    for part in parts:
        return part
    raise ValueError("DER ends too early")


def _integer(der: bytes, part: _Part) -> int:
    if part.tag != INTEGER:
        raise ValueError("DER has something else where a number belongs")
    return int.from_bytes(der[part.start : part.end], signed=True)


def _time_s(der: bytes, part: _Part) -> float:
    text = der[part.start : part.end].decode("ascii")
    if part.tag == UTC_TIME:  # RFC 5280, 4.1.2.5.1: 50 and later are of the last century
        text = ("19" if text[:2] >= "50" else "20") + text
    elif part.tag != GENERALIZED_TIME:
        raise ValueError("DER has something else where a time belongs")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def pem_blocks(pem: bytes, name: str) -> list[bytes]:
    """Return the DER of all blocks of this name, such as CERTIFICATE, in a PEM file.

    :raises ValueError: a block has no end, as in a file that is half written, or is no base64.
    """
    begin, end = b"-----BEGIN %b-----" % name.encode(), b"-----END %b-----" % name.encode()
    if pem.count(b"-----BEGIN ") != pem.count(b"-----END "):
        raise ValueError("the file ends within a block")
    found = []
    for piece in pem.split(begin)[1:]:
        content = piece.partition(end)[0].decode("ascii")
        certificate = f"{ssl.PEM_HEADER}\n{content.strip()}\n{ssl.PEM_FOOTER}"
        found.append(ssl.PEM_cert_to_DER_cert(certificate))
    return found
