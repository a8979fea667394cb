"""Authenticate (36) takes a peer through an exchange of SASL, and says who it is at its end.

Rules
-----
* Nothing else of the connection begins while a message is looked at.
* A failure is told after a moment that is drawn, and ends the connection: the moment hides what the
  broker looked up, and makes guessing slow. An address that fails often waits for longer [S8].
* A session that has an end is as long as the shortest of what bounds it. The same user may
  authenticate again before (KIP-368); somebody else may not.
* A user who is changed while an exchange is under way fails it: the password may be the old one.
* Passwords are checked in threads, of which there are few: whoever comes when too many wait is told
  to come again. So it is with the judge of tokens.
* The data of an exchange is never logged, and neither is the cause told to the peer [S7].
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from oncelog_broker.server.audit import Audit, AuditedPeer
from oncelog_broker.server.guessing_hosts import GUESS_S, GuessingHosts
from oncelog_broker.server.peer_identity import NOBODY_KNOWN
from oncelog_broker.server.request import ConnectionState, RequestContext
from oncelog_broker.server.users import Users
from oncelog_protocol.errors import BrokerNotAvailableError, IllegalSaslStateError
from oncelog_protocol.messages.authentication import AuthenticateRequest, AuthenticateResponse
from oncelog_protocol.sasl.oauth_bearer import TokenCheck, TokenHolder
from oncelog_protocol.sasl.outcomes import Done, Failed
from oncelog_protocol.sasl.plain import PasswordCheck
from oncelog_protocol.sasl.scram_messages import NONCE_BYTES
from oncelog_protocol.sasl.server_authentication import SaslPorts, ServerAuthentication
from oncelog_protocol.sasl.session import session_ms_of
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.threads import Threads

logger = get_logger(__name__)

FAILURE_S_MIN, FAILURE_S_MAX = 0.1, 0.25
"""A failure is told after a moment between these."""
CHECKS_MAX = 32
"""So many passwords may wait to be checked."""
CHECK_THREADS = 2
NO_MECHANISM = "none"
"""It stands on record for a peer that has named no mechanism that is taken here."""


class TokenVerdicts(Protocol):
    """It tells tokens that are to be believed from all others."""

    async def judge(self, token: str) -> TokenHolder:
        """Return whom a token names.

        :raises BrokerNotAvailableError: too many tokens wait to be judged.
        :raises Exception: it is not believed; the text, for the log, does not quote it.
        """
        ...


SaslOfListeners = Callable[[str], SaslPorts | None]
"""It returns what a listener takes, by its name; None: nobody authenticates there."""


class AuthenticateHandler:
    """It authenticates the peers of all listeners.

    :param users: tells whether what an exchange was begun by still holds at its end.
    :param tokens: judges tokens; None: no token is believed.
    :param reauth_ms_max: ``connections_max_reauth_ms``; 0: sessions last for ever.
    """

    def __init__(
        self,
        sasl: SaslOfListeners,
        *,
        users: Users,
        entropy: Entropy,
        clock: WallClock,
        reauth_ms_max: int,
        tokens: TokenVerdicts | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._sasl = sasl
        self._users = users
        self._entropy = entropy
        self._clock = clock
        self._reauth_ms_max = reauth_ms_max
        self._tokens = tokens
        self._audit = Audit() if audit is None else audit
        self._threads = Threads(CHECK_THREADS, "passwords")
        self._checking = 0
        self._guessing = GuessingHosts()

    async def handle_async(
        self, context: RequestContext, request: AuthenticateRequest
    ) -> AuthenticateResponse:
        """Take one message of the exchange.

        :raises IllegalSaslStateError: the listener authenticates nobody.
        :raises BrokerNotAvailableError: too many passwords or tokens wait.
        """
        connection = context.connection
        authentication = connection.authentication
        if authentication is None:
            authentication = self._begin(context)
            connection.authenticates(authentication, self._users.version)
        outcome = authentication.step(request.mechanism, request.data)
        if isinstance(outcome, PasswordCheck):
            outcome = authentication.checked(await self._holds(outcome))
        elif isinstance(outcome, TokenCheck):
            outcome = authentication.judged(await self._judged(outcome))
        if isinstance(outcome, Done) and not self._holds_still(connection, outcome):
            outcome = Failed(f"{outcome.name} has changed during the exchange")
        if isinstance(outcome, Done):
            return self._done(context, authentication, outcome)
        if isinstance(outcome, Failed):
            await self._failed(context, authentication.mechanism, outcome)
        return authentication.answer(outcome)

    def _begin(self, context: RequestContext) -> ServerAuthentication:
        connection = context.connection
        ports = self._sasl(context.listener)
        if ports is None:
            connection.end()
            raise IllegalSaslStateError(f"nobody authenticates on listener {context.listener}")
        return ServerAuthentication(
            ports,
            nonce=self._entropy.token(NONCE_BYTES),
            encrypted=connection.encrypted,
            again="" if connection.must_authenticate else _name(connection),
        )

    def _holds_still(self, connection: ConnectionState, done: Done) -> bool:
        """Return whether the user is as it was when the exchange began. Whoever followed the user's
        connections has not seen this one. A token is nobody's password."""
        if done.expires_ms is not None:
            return True
        return self._users.holds(done.name, connection.users_version)

    async def _holds(self, check: PasswordCheck) -> bool:
        if self._checking >= CHECKS_MAX:
            raise BrokerNotAvailableError("too many passwords wait to be checked")
        self._checking += 1
        try:
            return await self._threads.call(check.holds)
        finally:
            self._checking -= 1

    async def _judged(self, check: TokenCheck) -> TokenHolder | Exception:
        if self._tokens is None:
            return LookupError("nobody here can judge a token")
        try:
            return await self._tokens.judge(check.token)
        except BrokerNotAvailableError:
            raise
        except Exception as error:  # Whatever a judge trips over, the token is not believed.
            return error

    def _done(
        self, context: RequestContext, authentication: ServerAuthentication, done: Done
    ) -> AuthenticateResponse:
        session_ms = session_ms_of(done.expires_ms, self._clock.now_ms(), self._reauth_ms_max)
        ends_s = asyncio.get_running_loop().time() + session_ms / 1000
        context.connection.authenticated(
            f"User:{done.name}",
            ends_s if session_ms else float("inf"),
            authentication.mechanism,
        )
        peer = AuditedPeer.of(context)._replace(principal=f"User:{done.name}")
        self._audit.authenticated(peer, authentication.mechanism)
        logger.debug("authenticated", principal=peer.principal, peer=context.peer)
        return authentication.answer(done, session_ms)

    async def _failed(self, context: RequestContext, mechanism: str, failed: Failed) -> None:
        if failed.is_last:
            context.connection.end()
        peer = AuditedPeer.of(context)
        self._audit.authentication_failed(peer, mechanism or NO_MECHANISM, failed.cause)
        logger.warning(
            "authentication_failed",
            peer=context.peer,
            listener=context.listener,
            client_id=context.client_id,
            reason=failed.cause,
        )
        await asyncio.sleep(self._failure_s(context.peer.rpartition(":")[0]))

    def _failure_s(self, host: str) -> float:
        """Return after how many seconds a peer at this address is told of its failure."""
        if self._guessing.failed(host, asyncio.get_running_loop().time()):
            return GUESS_S
        return FAILURE_S_MIN + (FAILURE_S_MAX - FAILURE_S_MIN) * self._entropy.random()


def _name(connection: ConnectionState) -> str:
    if connection.known is NOBODY_KNOWN:
        return ""
    return connection.known.principal.removeprefix("User:")
