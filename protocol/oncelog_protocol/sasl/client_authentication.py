"""A client authenticates by the first of its mechanisms that the server takes. Pure.

Rules
-----
* A mechanism that the server does not take is followed by the first of ours that it does; there is
  no third, and no other once an exchange has begun.
* A password or a token leaves only over a connection that is encrypted. SCRAM shows neither.
* Nothing counts before our own machine says so: the server's consent alone is not enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncelog_protocol.errors import (
    NO_ERROR,
    LocalProtocolError,
    UnsupportedSaslMechanismError,
    error_for,
)
from oncelog_protocol.messages.authentication import AuthenticateRequest, AuthenticateResponse
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.session import reauthentication_delay_ms


class MechanismClient(Protocol):
    """It is a client's end of one exchange by one mechanism."""

    mechanism: Mechanism

    def start(self) -> bytes:
        """Return the first message."""
        ...

    def step(self, data: bytes) -> Continue | Done | Failed:
        """Take in a message of the server; return what comes of it."""
        ...


class ClientAuthentication:
    """It is one authentication of one connection.

    :param machines: fresh ones, in the order in which they are preferred; at least one.
    :param encrypted: whether the connection is, and its server's name is verified.
    :raises LocalProtocolError: there is no machine, or one shows a secret and the connection is not
        encrypted.
    """

    def __init__(self, machines: Sequence[MechanismClient], *, encrypted: bool) -> None:
        if not machines:
            raise LocalProtocolError("there is no mechanism to authenticate with")
        for each in machines:
            if each.mechanism.needs_encryption and not encrypted:
                raise LocalProtocolError(f"{each.mechanism} needs TLS: it shows a secret")
        self.session_ms = 0
        """How long the session lasts, once it has begun; 0: for ever."""
        self._machine, *self._others = machines
        self._may_change = True
        self._is_over = False

    def start(self) -> AuthenticateRequest:
        """Return the first request."""
        return AuthenticateRequest(str(self._machine.mechanism), self._machine.start())

    def step(self, response: AuthenticateResponse) -> AuthenticateRequest | Done | Failed:
        """Take in an answer; return the next request, or how it has ended."""
        if self._is_over:
            return Failed("an answer after the end of the exchange")
        outcome = self._outcome(response)
        self._is_over = not isinstance(outcome, AuthenticateRequest)
        return outcome

    def next(self, response: AuthenticateResponse) -> AuthenticateRequest | None:
        """Do what :meth:`step` does; return the next request, or None when all is done.

        :raises SaslAuthenticationFailedError, IllegalSaslStateError, UnsupportedSaslMechanismError:
            the exchange has failed; the text says why.
        """
        outcome = self.step(response)
        if isinstance(outcome, Failed):
            raise outcome.error(outcome.cause)
        return outcome if isinstance(outcome, AuthenticateRequest) else None

    def again_after_ms(self, chance: float) -> int:
        """Return after how many milliseconds to authenticate again; 0: never.

        :param chance: a number in [0, 1) that was drawn for this session.
        """
        return reauthentication_delay_ms(self.session_ms, chance) if self.session_ms else 0

    def _outcome(self, response: AuthenticateResponse) -> AuthenticateRequest | Done | Failed:
        code = response.error_code
        if code == UnsupportedSaslMechanismError.code:
            return self._next_mechanism(response.mechanisms)
        if code != NO_ERROR:
            error = error_for(code, response.error_message or "")
            return Failed(str(error), type(error))
        outcome = self._machine.step(response.data)
        if isinstance(outcome, Continue):
            self._may_change = False
            return AuthenticateRequest(str(self._machine.mechanism), outcome.data)
        if isinstance(outcome, Done):
            if response.session_ms < 0:
                return Failed("the server's message cannot be trusted: a session of no length")
            self.session_ms = response.session_ms
        return outcome

    def _next_mechanism(self, taken: Sequence[str]) -> AuthenticateRequest | Failed:
        fitting = [each for each in self._others if each.mechanism in taken]
        if not self._may_change or not fitting:
            listed = ", ".join(name[:40] for name in taken[:10] if name.isprintable()) or "none"
            return Failed(
                f"the listener does not take {self._machine.mechanism}; it takes {listed}",
                UnsupportedSaslMechanismError,
            )
        self._may_change = False
        self._machine = fitting[0]
        return self.start()
