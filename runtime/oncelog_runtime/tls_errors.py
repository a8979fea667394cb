"""A TLS failure is said in plain words: what is wrong, and what to do about it.

OpenSSL names causes for people who know OpenSSL. Two tables translate what operators meet: results
of the verification of a certificate, and the other reasons, among them the alerts by which a peer
says what it did not like.
"""

from __future__ import annotations

import ssl

__all__ = ["OtherProtocolError", "TlsError", "explained", "foreign_to_frames", "misfit"]


class TlsError(ConnectionError):
    """TLS was not agreed upon with a peer: trying again alone changes nothing.

    It is a ConnectionError, so that whoever keeps connections treats it as a failed attempt; it is
    never a ConnectionRefusedError, for a failed handshake is no evidence of death.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}: {remedy}")
        self.cause = cause
        """It says what is wrong."""
        self.remedy = remedy
        """It says what to do about it."""


class OtherProtocolError(TlsError):
    """The peer speaks something else than TLS."""


_OTHER_CA = (
    "the certificate of the peer was not signed by a trusted CA",
    "name the CA that signed it, or let the peer send its whole chain",
)
_OTHER_NAME = (
    "the certificate of the peer is for another name",
    "connect by a name of its subject alternative names, or set server_name",
)
_NO_LIST = (
    "there is no valid revocation list of the CA that signed the certificate of the peer",
    "put a fresh list of each CA into crl_file",
)
_VERIFICATION: dict[int, tuple[str, str]] = {
    2: _OTHER_CA,
    3: _NO_LIST,
    9: ("the certificate of the peer is not valid yet", "set the clocks right, or wait"),
    10: ("the certificate of the peer has expired", "renew it, or set the clocks right"),
    11: _NO_LIST,
    12: _NO_LIST,
    18: _OTHER_CA,
    19: _OTHER_CA,
    20: _OTHER_CA,
    21: _OTHER_CA,
    23: ("the certificate of the peer was revoked", "issue a new one"),
    26: (
        "the certificate of the peer is not for this purpose",
        "servers need the extended key usage serverAuth, clients clientAuth",
    ),
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""The keys are the codes X509_V_ERR of OpenSSL."""

_NO_COMMON = (
    "the peer and this side have no TLS version or cipher suite in common",
    "both need TLS 1.3, or 1.2 with ECDHE and an AEAD suite",
)
_NO_CERTIFICATE = (
    "the peer showed no certificate",
    "give the client a certificate_file and a key_file",
)
_REASONS: dict[str, tuple[str, str]] = {
    "NO_SHARED_CIPHER": _NO_COMMON,
    "UNSUPPORTED_PROTOCOL": _NO_COMMON,
    "NO_PROTOCOLS_AVAILABLE": _NO_COMMON,
    "WRONG_SSL_VERSION": _NO_COMMON,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_COMMON,
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": _NO_COMMON,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": (
        "the peer refused the handshake",
        "it needs a certificate of this side, or another TLS version or cipher suite",
    ),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": _NO_CERTIFICATE,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": (
        "the peer wants a certificate of this side",
        "set certificate_file and key_file",
    ),
    "TLSV1_ALERT_UNKNOWN_CA": (
        "the peer does not trust the CA of this side's certificate",
        "name that CA at the peer, or send the whole chain",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": (
        "the peer says that this side's certificate has expired",
        "renew it, or set the clocks right",
    ),
    "SSLV3_ALERT_CERTIFICATE_REVOKED": (
        "the peer says that this side's certificate was revoked",
        "issue a new one",
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": (
        "the peer refused this side's certificate",
        "see the peer's log for the reason",
    ),
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": (
        "the peer says that this side's certificate is not for this purpose",
        "servers need the extended key usage serverAuth, clients clientAuth",
    ),
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": (
        "the peer refused this side's certificate",
        "see the peer's log for the reason",
    ),
}


def explained(error: Exception) -> TlsError:
    """Return what went wrong according to OpenSSL, in plain words; the error is its cause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = _VERIFICATION.get(error.verify_code)
        detail = error.verify_message
    elif isinstance(error, ssl.SSLError):
        text = _REASONS.get(error.reason or "")
        detail = (error.reason or str(error)).replace("_", " ").lower()
    else:
        text, detail = None, str(error)
    if text is None:
        found = TlsError(f"TLS failed ({detail})", "see the other side's log as well")
    else:
        found = TlsError(f"{text[0]} ({detail})", text[1])
    found.__cause__ = error
    return found


def misfit(first: bytes, *, server_side: bool) -> OtherProtocolError | None:
    """Return what came instead of TLS, by its first bytes; None: it may be TLS.

    TLS begins with a record of type 22 (handshake), or 21 (alert, where somebody answers).
    """
    kind = first[0]
    if kind == 22 or (kind == 21 and not server_side):
        return None
    if first.startswith(_HTTP):
        what = "HTTP"
    elif kind == 21:
        what = "a TLS alert"
    elif kind in (20, 23):
        what = "a TLS record that begins no handshake"
    elif kind & 0x80 and first[2:3] == b"\x01":
        what = "an SSLv2 hello"
    elif kind == 0:
        what = "a plain frame"
    else:
        what = f"bytes that are no TLS ({first[:8].hex()})"
    remedy = (
        "this port speaks TLS: switch it on at the client"
        if server_side
        else "the port speaks no TLS: take another port, or switch TLS off"
    )
    return OtherProtocolError(f"{what} came instead of TLS", remedy)


def foreign_to_frames(first: bytes) -> str:
    """Return what came instead of a plain frame, by its first four bytes or more, and what to do
    about it; "" if they do not tell.

    The length of no legal frame begins like TLS or like HTTP.
    """
    if first[:2] == b"\x16\x03":
        return (
            "a TLS ClientHello came instead of a plain frame: switch TLS off at the client, or on "
            "at this listener"
        )
    if len(first) >= 4 and any(word.startswith(first[: len(word)]) for word in _HTTP):
        return "HTTP came instead of a plain frame: metrics and probes have a port of their own"
    return ""


_HTTP = (
    *(b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"CONNECT "),
    *(b"TRACE ", b"PRI * ", b"HTTP/"),
)
