"""What is known of a peer is kept in one value, which changes when the peer proves something."""

from __future__ import annotations

from dataclasses import dataclass

ANONYMOUS = "User:ANONYMOUS"
"""A connection that did not authenticate has this principal, as in Kafka."""

CERTIFICATE = "CERTIFICATE"
"""It stands in place of a mechanism for who is known by a certificate."""


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """It is what a peer has proved, by TLS or by SASL."""

    principal: str = ANONYMOUS
    certificate: bytes | None = None
    """It is the certificate that the peer showed, in DER."""
    not_after_s: float = float("inf")
    """The certificate is good until then, in seconds since 1970."""
    session_ends_s: float = float("inf")
    """The connection ends then, by the loop's time, unless the peer authenticates again
    (KIP-368)."""
    mechanism: str = ""
    """The peer has authenticated by this mechanism of SASL; "": by none."""

    @property
    def authenticated_by(self) -> str:
        """Return what says who the peer is: a mechanism of SASL, CERTIFICATE, or "" for nothing."""
        return self.mechanism or (CERTIFICATE if self.certificate is not None else "")


NOBODY_KNOWN = PeerIdentity()
"""Nothing was proved."""
