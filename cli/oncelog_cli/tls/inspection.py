"""A certificate is looked at here: in a file, or as a server shows it.

Rules: all that is wrong is found, each with a remedy; nothing is changed, and no key leaves its
file. A server is verified as a client would: its chain by the CA, its name by the host dialled.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from oncelog_cli.exits import CommandError
from oncelog_cli.tls.authority import (
    CA,
    hosts_of,
    is_issued_by,
    read_certificates,
    user_of,
)

TIMEOUT_S = 5.0
"""A server has so long to answer."""
REFUSAL_S = 1.0
"""A server that wants a certificate refuses after the handshake (TLS 1.3), within so long."""
SECONDS_A_DAY = 86_400.0

_PURPOSES = {
    ExtendedKeyUsageOID.SERVER_AUTH: "server",
    ExtendedKeyUsageOID.CLIENT_AUTH: "client",
}
_WRONG_NAME = (62, 64)
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL."""
_EXPIRED = 10


@dataclass(frozen=True, slots=True)
class Seen:
    """It is what one certificate says, and whether what belongs to it fits."""

    subject: str
    purposes: list[str]
    """"ca", "server", "client"; none: it does not say, so anything."""
    user: str | None
    """Brokers see this user in it by default."""
    hosts: list[str]
    not_after: datetime
    days_left: float
    key_fits: bool | None = None
    """None: there is no key to look at."""
    verified: bool | None = None
    """Whether it is from the CA, and for the host; None: there is no CA to ask."""


@dataclass(slots=True)
class Inspection:
    """It is all that was seen at one place, and what is wrong there."""

    place: str
    certificates: list[Seen] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Each is a sentence with a remedy."""
    remarks: list[str] = field(default_factory=list)


# -- files ---------------------------------------------------------------------------------------


def inspect_file(
    path: Path, *, key: Path | None, ca: Path | None, now: datetime, days_min: float
) -> Inspection:
    """Look at a file of certificates, its key and its CA.

    :param key: else the file beside it that ends in ``.key``, if there is one.
    :param ca: else ``ca.pem`` beside it, if there is one.
    :param days_min: fewer days than this are a problem.
    :raises CommandError: a file cannot be read or is not PEM.
    """
    found = Inspection(str(path))
    certificates = read_certificates(path)
    key = key or _if_there(path.with_suffix(".key"))
    ca = ca or _if_there(path.with_name(f"{CA}.pem"))
    fits = None if key is None else _key_fits(key, certificates[0], path, found)
    verified = None if ca is None else _is_verified(certificates, ca, path, found)
    for number, certificate in enumerate(certificates):
        own = number == 0
        seen = _seen(certificate, now, fits if own else None, verified if own else None)
        found.certificates.append(seen)
        found.problems += _time_problems(certificate, seen, str(path), now, days_min)
    return found


def _key_fits(
    key: Path, certificate: x509.Certificate, path: Path, found: Inspection
) -> bool | None:
    try:
        content, mode = key.read_bytes(), os.stat(key).st_mode
    except OSError as error:
        raise CommandError(f"{key} cannot be read: {error.strerror}") from None
    if mode & stat.S_IROTH:
        found.problems.append(f"everybody may read {key}. Remedy: chmod 600 {key}")
    try:
        private = load_pem_private_key(content, None)
    except TypeError:
        found.remarks.append(f"{key} has a password: whether it fits was not looked at")
        return None
    except ValueError as error:
        raise CommandError(f"{key} holds no private key as PEM ({error})") from None
    fits = private.public_key() == certificate.public_key()
    if not fits:
        found.problems.append(
            f"the key {key} does not fit {path}. Remedy: put both files of one pair there"
        )
    return fits


def _is_verified(chain: list[x509.Certificate], ca: Path, path: Path, found: Inspection) -> bool:
    """Return whether the first of a chain leads to one of the CAs, each step signed by the next."""
    authorities = read_certificates(ca)
    for number, certificate in enumerate(chain):
        if any(is_issued_by(certificate, each) for each in authorities):
            return True
        later = [each for each in chain[number + 1 :] if CA in _purposes(each)]
        if not any(is_issued_by(certificate, each) for each in later):
            break
    found.problems.append(
        f"{path} is not from a CA in {ca}. Remedy: have it issued there, or name its CA with --ca"
    )
    return False


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None


# -- servers -------------------------------------------------------------------------------------


def inspect_server(
    host: str,
    port: int,
    *,
    ca: Path | None,
    server_name: str | None,
    pair: tuple[Path, Path] | None,
    now: datetime,
    days_min: float,
) -> Inspection:
    """Look at the certificate that a server shows, and verify it as a client would.

    :param ca: else the CAs that the system knows.
    :param server_name: the certificate must have this name; else ``host``.
    :param pair: the certificate and the key that this client shows.
    :raises CommandError: nobody answers, or not in TLS.
    """
    found = Inspection(f"{host}:{port}")
    context = _client_context(ca, pair)
    shown = _shown(host, port, found.place)
    fault = _fault(context, host, port, server_name, found)
    seen = _seen(shown, now, None, fault is None)
    found.certificates.append(seen)
    late = list(_time_problems(shown, seen, found.place, now, days_min))
    found.problems += late
    if fault is not None and not (late and fault.verify_code == _EXPIRED):
        found.problems.append(_words(fault, server_name or host, seen, ca))
    return found


def _client_context(ca: Path | None, pair: tuple[Path, Path] | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if pair is not None:
            context.load_cert_chain(str(pair[0]), str(pair[1]), password="")
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(str(each) for each in (ca, *(pair or ())) if each is not None)
        raise CommandError(f"{named}: not usable for TLS ({error.strerror or error})") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _shown(host: str, port: int, place: str) -> x509.Certificate:
    """Return what a server shows to anybody, good or not."""
    try:
        text = ssl.get_server_certificate((host, port), timeout=TIMEOUT_S)
    except ssl.SSLError as error:
        raise CommandError(
            f"{place} does not speak TLS as clients do ({_reason(error)}). Remedy: see that it is"
            " a listener with tls_certificate_file"
        ) from None
    except TimeoutError:
        raise CommandError(
            f"{place} did not answer to TLS in {TIMEOUT_S:g} s. Remedy: see that it is a listener"
            " with tls_certificate_file"
        ) from None
    except OSError as error:
        raise CommandError(
            f"{place} cannot be reached: {error.strerror or error}. Remedy: see that the broker"
            " runs, and the port"
        ) from None
    return x509.load_pem_x509_certificate(text.encode("ascii"))


def _fault(
    context: ssl.SSLContext, host: str, port: int, server_name: str | None, found: Inspection
) -> ssl.SSLCertVerificationError | None:
    """Return why a client would not trust the server; see whether the server takes the client."""
    try:
        with (
            socket.create_connection((host, port), timeout=TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=server_name or host) as encrypted,
        ):
            found.remarks.append(f"it speaks {encrypted.version()}")
            _see_refusal(encrypted, found)
    except ssl.SSLCertVerificationError as error:
        return error
    except OSError as error:
        raise CommandError(f"{found.place}: {error.strerror or error}") from None
    return None


def _see_refusal(encrypted: ssl.SSLSocket, found: Inspection) -> None:
    """See whether the server ends the connection before a request, because of who the client is."""
    encrypted.settimeout(REFUSAL_S)
    try:
        if encrypted.recv(1):
            return
        reason = "it ends the connection"
    except TimeoutError:
        return  # it waits for a request, as a server does that takes the client
    except OSError as error:
        reason = _reason(error)
    if "CERTIFICATE_REQUIRED" in reason:
        found.remarks.append("it serves only clients that show a certificate")
    else:
        found.problems.append(
            f"{found.place} refuses this client ({reason}). Remedy: show a certificate from a CA"
            " that it trusts, with --certificate and --key"
        )


def _reason(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return reason or error.strerror or str(error)


def _words(fault: ssl.SSLCertVerificationError, name: str, seen: Seen, ca: Path | None) -> str:
    if fault.verify_code in _WRONG_NAME:
        hosts = ", ".join(seen.hosts) or "no host"
        return (
            f"the server's certificate is for {hosts}, and not for {name}. Remedy: dial such a"
            " host, or issue one for this host as well"
        )
    asked = "the CAs of this system" if ca is None else f"the CA in {ca}"
    remedy = "name its CA with --ca" if ca is None else "give the CA of this very cluster"
    return (
        f"the server's certificate cannot be verified by {asked} ({fault.verify_message})."
        f" Remedy: {remedy}"
    )


# -- both ----------------------------------------------------------------------------------------


def _seen(
    certificate: x509.Certificate, now: datetime, key_fits: bool | None, verified: bool | None
) -> Seen:
    ends = certificate.not_valid_after_utc
    return Seen(
        certificate.subject.rfc4514_string(),
        list(_purposes(certificate)),
        user_of(certificate),
        hosts_of(certificate),
        ends,
        (ends - now).total_seconds() / SECONDS_A_DAY,
        key_fits,
        verified,
    )


def _purposes(certificate: x509.Certificate) -> Iterator[str]:
    extensions = certificate.extensions
    try:
        if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            yield CA
    except x509.ExtensionNotFound:
        pass
    try:
        named = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    for each in named:
        yield _PURPOSES.get(each, each.dotted_string)


def _time_problems(
    certificate: x509.Certificate, seen: Seen, place: str, now: datetime, days_min: float
) -> Iterator[str]:
    name = re.sub(r"^CN=", "", seen.subject)
    what = f"the certificate {seen.subject} of {place}"
    renew = f"Remedy: oncelog tls make --renew {name} --dir DIRECTORY, where its CA is"
    if seen.days_left <= 0:
        yield f"{what} has expired. {renew}"
    elif seen.days_left < days_min:
        yield f"{what} has {seen.days_left:.1f} days left, fewer than {days_min:g}. {renew}"
    if certificate.not_valid_before_utc > now:
        yield f"{what} is not valid yet. Remedy: set this machine's clock right, or wait"
