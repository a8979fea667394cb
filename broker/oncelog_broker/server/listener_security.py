"""A listener knows by this how its peers are known: by nothing, by TLS or by SASL.

Rules
-----
* Without TLS everybody is ``User:ANONYMOUS``, and on the listener between brokers a peer is the
  broker that it says it is.
* A peer that showed a certificate is the user that the certificate names; its connection ends with
  the certificate's time, or when a list revokes it.
* With SASL a peer is the user that it authenticated as, whatever certificate it showed; before, it
  is told the versions of APIs and is authenticated, and nothing else.
* Where every peer proves who it is, a peer of the listener between brokers is a broker only if it
  is the user that the broker's id asks for. Any other is a client.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from oncelog_broker.server.peer_identity import NOBODY_KNOWN, PeerIdentity
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_runtime.certificates import PrincipalKind, certificate_facts, principal_of
from oncelog_runtime.tls_contexts import ServerTls
from oncelog_runtime.tls_errors import TlsError

BROKER_PRINCIPAL = "User:broker-{id}"
"""A broker is this user by default."""


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """These are the rules of one listener."""

    tls: ServerTls | None = None
    principal_kind: PrincipalKind = "uri"
    """This part of a certificate names the user."""
    proves_peers: bool = False
    """Whether nobody is served who has not proved who he is."""
    broker_principal: str = BROKER_PRINCIPAL
    sasl: tuple[Mechanism, ...] = ()
    """A peer authenticates by one of these before anything else; empty: by its certificate, or not
    at all."""

    def lacks(self) -> str:
        """Return what keeps the listener from being safe beyond its machine, and what to do about
        it; "" if nothing does."""
        if self.tls is None and self.sasl:
            return (
                "encryption: set tls_certificate_file and tls_key_file, or let it listen on "
                "127.0.0.1"
            )
        if self.tls is None:
            return (
                "neither encryption nor authentication: set tls_certificate_file and tls_key_file, "
                "with tls_client_auth=required, or let it listen on 127.0.0.1"
            )
        if not self.proves_peers:
            return "authentication: set tls_client_auth=required, or let it listen on 127.0.0.1"
        return ""

    def peer(self, tls: ssl.SSLObject) -> PeerIdentity:
        """Return who is at the other end of a connection whose handshake is done.

        :raises TlsError: its certificate names no user, or more than one.
        """
        der = tls.getpeercert(binary_form=True)
        decoded = tls.getpeercert()
        if der is None or not decoded:
            return NOBODY_KNOWN
        principal = f"User:{principal_of(decoded, self.principal_kind)}"
        try:
            facts = certificate_facts(der)
        except ValueError as error:
            raise TlsError(f"the certificate of the peer: {error}", "issue another") from error
        return PeerIdentity(principal, der, facts.not_after_s)

    def is_broker(self, broker_id: int, principal: str) -> bool:
        """Return whether a peer that says it is this broker may be believed."""
        return not self.proves_peers or principal == self.broker_principal.format(id=broker_id)

    def fault_of(self, peer: PeerIdentity, now_s: float) -> str:
        """Return why a connection must end now, by the wall clock in seconds; "" if it need not."""
        if now_s >= peer.not_after_s:
            return "the peer's certificate has expired"
        if self.tls is None or peer.certificate is None:
            return ""
        return "the peer's certificate is revoked" if self.tls.is_revoked(peer.certificate) else ""


OPEN = ListenerSecurity()
"""It proves nothing and encrypts nothing."""
