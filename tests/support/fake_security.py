"""Brokers of a fake cluster may ask who their clients are."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.errors import IllegalSaslStateError
from oncelog_protocol.messages.authentication import AuthenticateRequest, AuthenticateResponse
from oncelog_protocol.messages.handshake import ApiVersionsRequest
from oncelog_protocol.sasl.credential import Mechanism, ScramCredential
from oncelog_protocol.sasl.oauth_bearer import TokenCheck, TokenHolder
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.plain import PasswordCheck
from oncelog_protocol.sasl.server_authentication import SaslPorts, ServerAuthentication
from support.fake_handlers import error_answer

__all__ = ["FakeAuthentication", "FakeSecurity"]

SECRET = b"of the cluster"
ITERATIONS = 4096


class FakeSecurity:
    """It says what the brokers want; without anything they take everybody."""

    def __init__(self, *mechanisms: Mechanism, encrypted: bool = True) -> None:
        self.mechanisms = mechanisms
        self.encrypted = encrypted
        self.passwords: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        """Token to the name of its user."""
        self.session_ms = 0
        self.authenticated: list[str] = []
        """Who was believed, in order."""

    def ports(self) -> SaslPorts:
        """Return what the machines of SASL ask."""
        return SaslPorts(self.mechanisms, self._credential, SECRET)

    def _credential(self, mechanism: Mechanism, name: str) -> ScramCredential | None:
        password = self.passwords.get(name)
        if password is None:
            return None
        return ScramCredential.make(mechanism, password, b"s" * 16, ITERATIONS)

    def judge(self, token: str) -> TokenHolder | Exception:
        """Return whom a token names, or why it is not believed."""
        name = self.tokens.get(token)
        return LookupError("no such token") if name is None else TokenHolder(name, 2**62)


class FakeAuthentication:
    """It is the authentication of one connection."""

    def __init__(self, security: FakeSecurity) -> None:
        self._security = security
        self._exchange: ServerAuthentication | None = None
        self._name = ""
        self.may_go_on = True
        """Whether the connection goes on after an error."""

    def answer(self, request: Any) -> Any:
        """Return the answer to a request that is about authentication, or comes before it."""
        if isinstance(request, AuthenticateRequest):
            return self._step(request)
        if self._name or isinstance(request, ApiVersionsRequest) or not self._security.mechanisms:
            return None
        self.may_go_on = False
        return error_answer(request, IllegalSaslStateError.code)

    def _step(self, request: AuthenticateRequest) -> AuthenticateResponse:
        security = self._security
        if self._exchange is None:
            self._exchange = ServerAuthentication(
                security.ports(),
                nonce=b"n" * 24,
                encrypted=security.encrypted,
                again=self._name,
            )
        outcome = self._exchange.step(request.mechanism, request.data)
        if isinstance(outcome, PasswordCheck):
            outcome = self._exchange.checked(outcome.holds())
        elif isinstance(outcome, TokenCheck):
            outcome = self._exchange.judged(security.judge(outcome.token))
        if isinstance(outcome, Continue):
            return AuthenticateResponse(data=outcome.data)
        if isinstance(outcome, Failed):
            self.may_go_on = not outcome.is_last
            mechanisms = [str(each) for each in security.mechanisms]
            return AuthenticateResponse(outcome.error.code, mechanisms=mechanisms)
        assert isinstance(outcome, Done)
        self._exchange = None
        self._name = outcome.name
        security.authenticated.append(outcome.name)
        return AuthenticateResponse(data=outcome.data, session_ms=security.session_ms)
