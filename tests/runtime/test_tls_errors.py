"""Failures of TLS are said in plain words, with a remedy; what OpenSSL said is kept."""

from __future__ import annotations

import ssl

import pytest

from oncelog_runtime.tls_errors import TlsError, explained, foreign_to_frames, misfit


def of_openssl(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] text")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (10, "has expired"),
        (9, "not valid yet"),
        (18, "trusted CA"),
        (19, "trusted CA"),
        (20, "trusted CA"),
        (23, "was revoked"),
        (3, "revocation list"),
        (12, "revocation list"),
        (26, "not for this purpose"),
        (62, "another name"),
        (64, "another name"),
    ],
)
def test_results_of_a_verification(code: int, said: str) -> None:
    error = ssl.SSLCertVerificationError(1, "failed")
    error.verify_code, error.verify_message = code, "as OpenSSL says it"
    found = explained(error)
    assert said in found.cause
    assert "as OpenSSL says it" in found.cause
    assert str(found) == f"{found.cause}: {found.remedy}"
    assert found.__cause__ is error


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("NO_SHARED_CIPHER", "in common"),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not trust the CA of this side"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "set certificate_file"),
        ("SSLV3_ALERT_CERTIFICATE_REVOKED", "issue a new one"),
        ("SOMETHING_NEW", "TLS failed (something new)"),
    ],
)
def test_other_reasons(reason: str, said: str) -> None:
    assert said in str(explained(of_openssl(reason)))


def test_what_is_not_of_openssl() -> None:
    assert "no such name" in str(explained(ValueError("no such name")))


def test_a_failed_handshake_is_a_failed_attempt_and_no_refusal() -> None:
    error = TlsError("cause", "remedy")
    assert isinstance(error, ConnectionError)
    assert not isinstance(error, ConnectionRefusedError)
    assert error.errno is None


def test_what_may_be_tls() -> None:
    assert misfit(b"\x16", server_side=True) is None
    assert misfit(b"\x16\x03\x01", server_side=False) is None
    assert misfit(b"\x15\x03\x03", server_side=False) is None


@pytest.mark.parametrize("first", [b"\x00", b"H", b"GET / HTTP/1.1", b"\xff\xff\x01", b"\x15"])
def test_what_is_no_tls_is_told_by_its_first_bytes(first: bytes) -> None:
    found = misfit(first, server_side=True)
    assert found is not None
    assert "instead of TLS" in found.cause
    assert "speaks TLS" in found.remedy


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"\x16\x03\x01\x02", "a TLS ClientHello"),
        (b"\x16\x03\x03\x02\x00\x01\x00", "a TLS ClientHello"),
        (b"GET ", "HTTP"),
        (b"POST", "HTTP"),
        (b"OPTIONS * HTTP/1.1", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\n", "HTTP"),
    ],
)
def test_what_came_instead_of_a_plain_frame_is_told_by_its_first_bytes(
    first: bytes, what: str
) -> None:
    assert foreign_to_frames(first).startswith(f"{what} came instead of a plain frame: ")


@pytest.mark.parametrize(
    "first", [b"", b"G", b"\x00\x00\x00\x40", b"EHLO example.org", b"\xff" * 16]
)
def test_other_bytes_are_no_protocol_with_a_name(first: bytes) -> None:
    assert foreign_to_frames(first) == ""
