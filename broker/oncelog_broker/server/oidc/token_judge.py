"""The judge of tokens finds the key of each, verifies its signature, and applies the rules.

A signature takes 0.1 ms (RSA of 2,048 bits) to 0.7 ms (P-521), and a token of 16 KiB one more,
which is verified in a thread: few at a time, and few in line. Time is the wall clock's, which the
judge is given.
"""

from __future__ import annotations

from typing import Any

import jwt

from oncelog_broker.server.oidc.key_ring import KeyRing
from oncelog_broker.server.oidc.signing_keys import PublicKey
from oncelog_broker.server.oidc.token_rules import TokenRefusedError, TokenRules
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_protocol.sasl.oauth_bearer import TokenHolder
from oncelog_runtime.clock import WallClock
from oncelog_runtime.threads import Threads

__all__ = ["TokenJudge"]

IN_LINE_MAX = 32
"""So many signatures may be or wait to be verified."""
# The rules look at the claims: by the clock that they are given, and with words of their own.
_SIGNATURE_ALONE: Any = {
    "verify_signature": True,
    **{f"verify_{each}": False for each in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")},
}


class TokenJudge:
    """It judges the tokens of one issuer.

    :param keys: those of the issuer.
    :param threads: signatures are verified in them.
    """

    def __init__(
        self, rules: TokenRules, keys: KeyRing, clock: WallClock, threads: Threads
    ) -> None:
        self.keys = keys
        self._rules = rules
        self._clock = clock
        self._threads = threads
        self._in_line = 0

    async def judge(self, token: str) -> TokenHolder:
        """Return whom a token names.

        :raises TokenRefusedError, NoSuchKeyError: it is not believed.
        :raises BrokerNotAvailableError: too many wait.
        """
        named = self._rules.named_by(_header(token))
        key = await self.keys.find(named.kid, named.algorithm)
        if self._in_line >= IN_LINE_MAX:
            raise BrokerNotAvailableError("too many tokens wait to be verified")
        self._in_line += 1
        try:
            claims = await self._threads.call(_claims, token, key, named.algorithm)
        finally:
            self._in_line -= 1
        return self._rules.holder(claims, self._clock.now_ms() / 1000)

    async def run(self) -> None:
        """Look for new keys again and again, until cancelled; nothing is verified afterwards."""
        try:
            await self.keys.run()
        finally:
            self._threads.close()


def _header(token: str) -> dict[str, Any]:
    try:
        return jwt.get_unverified_header(token)
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise TokenRefusedError("it is no JWT") from None


def _claims(token: str, key: PublicKey, algorithm: str) -> dict[str, Any]:
    """Return what a token says whose signature holds. May run in a thread."""
    try:
        return jwt.decode(token, key, algorithms=[algorithm], options=_SIGNATURE_ALONE)
    except (jwt.InvalidTokenError, jwt.InvalidKeyError, ValueError, RecursionError) as error:
        raise TokenRefusedError(f"its signature does not hold ({type(error).__name__})") from None
