"""A broker authenticates a peer by the machine of the mechanism that the peer names. Pure.

Rules
-----
* The first message fixes the mechanism. A peer that names one which is not taken here is told those
  that are, and may try once more; a third is not heard.
* An exchange has at most four messages, one at a time. Whatever is out of turn ends the connection.
* The peer is told one text for every cause. The cause is for the log [S7].
* Only the outcome of a machine says who the peer is; who authenticates again must be the same
  (KIP-368).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog_protocol.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from oncelog_protocol.messages.authentication import AuthenticateResponse
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.sasl.oauth_bearer import (
    OAuthBearerServer,
    TokenCheck,
    TokenHolder,
)
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.plain import PasswordCheck, PlainServer
from oncelog_protocol.sasl.scram_messages import nonce_text
from oncelog_protocol.sasl.scram_server import CredentialLookup, ScramServer

MESSAGES_MAX = 4
MECHANISMS_MAX = 2

FAILURE_TEXT = "authentication failed: the user name, the password or the token is not right"
"""The one text for every cause."""


@dataclass(frozen=True, slots=True)
class SaslPorts:
    """It is what a listener takes, and whom its machines ask."""

    mechanisms: tuple[Mechanism, ...]
    look_up: CredentialLookup
    cluster_secret: bytes = field(repr=False)
    """Names without a user get their salts from it; the same on all brokers."""

    def taken(self, encrypted: bool) -> list[Mechanism]:
        """Return the mechanisms that a connection may use."""
        return taken_of(self.mechanisms, encrypted)


def taken_of(mechanisms: tuple[Mechanism, ...], encrypted: bool) -> list[Mechanism]:
    """Return those of a listener's mechanisms that a connection may use."""
    return [each for each in mechanisms if encrypted or not each.needs_encryption]


class ServerAuthentication:
    """It is one authentication of one connection.

    :param nonce: NONCE_BYTES that nobody can guess, never used before.
    :param encrypted: whether the connection is; without it PLAIN and OAUTHBEARER are not taken.
    :param again: who the peer is already, when a session goes on; "": nobody yet.
    :raises LocalProtocolError: the nonce is too short.
    """

    def __init__(self, ports: SaslPorts, *, nonce: bytes, encrypted: bool, again: str = "") -> None:
        nonce_text(nonce)
        self._ports = ports
        self._taken = ports.taken(encrypted)
        self._nonce = nonce
        self._again = again
        self._mechanism: Mechanism | None = None
        self._machine: ScramServer | PlainServer | OAuthBearerServer | None = None
        self._checking: PlainServer | OAuthBearerServer | None = None
        self._messages = 0
        self._refused = 0
        self._is_over = False

    @property
    def mechanism(self) -> str:
        """Return the mechanism that the peer has named; "" before it has."""
        return str(self._mechanism or "")

    def step(
        self, mechanism: str, data: bytes
    ) -> Continue | Done | Failed | PasswordCheck | TokenCheck:
        """Take in a request of the peer; return what comes of it.

        Before anything else what a :class:`PasswordCheck` has found goes to :meth:`checked`, and
        what the judge of a :class:`TokenCheck` has found to :meth:`judged`.
        """
        self._messages += 1
        if self._is_over or self._checking is not None:
            return self._illegal("a message while none was expected")
        if self._messages > MESSAGES_MAX:
            return self._illegal(f"more than {MESSAGES_MAX} messages")
        machine = self._machine
        if machine is None:
            if mechanism not in self._taken:
                return self._refuse(mechanism)
            self._mechanism = Mechanism(mechanism)
            machine = self._machine = self._new_machine(self._mechanism)
        elif mechanism != self._mechanism:
            return self._illegal("another mechanism within an exchange")
        if isinstance(machine, ScramServer):
            return self._settled(machine.step(data))
        outcome = machine.step(data)
        if isinstance(outcome, Failed):
            return self._settled(outcome)
        self._checking = machine
        return outcome

    def checked(self, holds: bool) -> Continue | Done | Failed:
        """Take in what the check of a password has found; return what comes of it."""
        machine, self._checking = self._checking, None
        if not isinstance(machine, PlainServer) or self._is_over:
            return self._illegal("nothing was to be checked")
        return self._settled(machine.checked(holds))

    def judged(self, found: TokenHolder | Exception) -> Continue | Done | Failed:
        """Take in what the judge of a token has found, by an exception that it is not believed;
        return what comes of it."""
        machine, self._checking = self._checking, None
        if not isinstance(machine, OAuthBearerServer) or self._is_over:
            return self._illegal("nothing was to be judged")
        return self._settled(machine.judged(found))

    def _settled(self, outcome: Continue | Done | Failed) -> Continue | Done | Failed:
        self._is_over = not isinstance(outcome, Continue)
        if isinstance(outcome, Done) and self._again not in ("", outcome.name):
            return Failed(f"{self._again} authenticates again as {outcome.name}")
        return outcome

    def _new_machine(self, mechanism: Mechanism) -> ScramServer | PlainServer | OAuthBearerServer:
        ports = self._ports
        if mechanism is Mechanism.PLAIN:
            return PlainServer(ports.look_up, ports.cluster_secret)
        if mechanism is Mechanism.OAUTHBEARER:
            return OAuthBearerServer()
        return ScramServer(mechanism, ports.look_up, ports.cluster_secret, self._nonce)

    def _refuse(self, mechanism: str) -> Failed:
        self._refused += 1
        self._is_over = self._refused == MECHANISMS_MAX
        cause = f"mechanism {mechanism[:40]!r} is not taken here"
        return Failed(cause, UnsupportedSaslMechanismError, self._is_over)

    def _illegal(self, cause: str) -> Failed:
        self._is_over = True
        return Failed(cause, IllegalSaslStateError)

    def answer(
        self, outcome: Continue | Done | Failed, session_ms: int = 0
    ) -> AuthenticateResponse:
        """Return what the peer is told. Of a failure it learns the kind, and no cause.

        :param session_ms: how long the session lasts, by :func:`session_ms_of`.
        """
        if isinstance(outcome, Continue):
            return AuthenticateResponse(data=outcome.data)
        if isinstance(outcome, Done):
            return AuthenticateResponse(data=outcome.data, session_ms=session_ms)
        response = AuthenticateResponse(outcome.error.code, str(outcome.error()))
        if outcome.error is SaslAuthenticationFailedError:
            response.error_message = FAILURE_TEXT
        if outcome.error is UnsupportedSaslMechanismError:
            response.mechanisms = [str(each) for each in self._taken]
        return response
