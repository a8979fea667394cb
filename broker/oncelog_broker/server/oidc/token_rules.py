"""These rules say which tokens of an issuer are believed (RFC 7519, RFC 8725). Pure.

Rules
-----
* The algorithm is one of the settings, and the key is the issuer's own, found by its id. What a
  header says of other keys or places is refused, not followed [S30].
* ``iss`` is the issuer, letter by letter; ``aud`` holds the audience; ``exp`` is there and ahead;
  ``nbf``, if it is there, is past. Clocks may differ by a minute.
* A text says what is wrong, and never quotes the token [S7].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from oncelog_broker.server.oidc.signing_keys import KID_CHARS_MAX
from oncelog_protocol.sasl.gs2 import is_legal_user
from oncelog_protocol.sasl.oauth_bearer import TokenHolder

__all__ = ["LEEWAY_S", "Named", "TokenRefusedError", "TokenRules"]

LEEWAY_S = 60
LATEST_S = 253_402_300_799
"""A later time than the end of the year 9999 is no date."""
FOREIGN = ("jku", "jwk", "x5u", "x5c", "crit", "b64")
"""Members of a header that would bring keys of their own, or another meaning."""


class TokenRefusedError(Exception):
    """The token is not to be believed; the text says why."""


class Named(NamedTuple):
    """A header names a key and an algorithm."""

    kid: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class TokenRules:
    """They are those of one issuer and one audience."""

    issuer: str
    audience: str
    principal_claim: str
    algorithms: Collection[str]

    def named_by(self, header: Mapping[str, Any]) -> Named:
        """Return what the header of a token names.

        :raises TokenRefusedError: nothing that may be used, or more than that.
        """
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not self.takes(algorithm):
            raise TokenRefusedError("its algorithm is none of oidc_algorithms")
        for member in FOREIGN:
            if member in header:
                raise TokenRefusedError(f"its header has {member}")
        if not isinstance(kid, str) or not 1 <= len(kid) <= KID_CHARS_MAX:
            raise TokenRefusedError("its header has no kid, or one that is too long")
        return Named(kid, algorithm)

    def holder(self, claims: Mapping[str, Any], now_s: float) -> TokenHolder:
        """Return whom the claims of a token name, whose signature holds.

        :raises TokenRefusedError: it is of another issuer, for somebody else, or not for now.
        """
        if not self.is_issuer(claims.get("iss")):
            raise TokenRefusedError("iss is not oidc_issuer")
        if not self.is_audience(claims.get("aud")):
            raise TokenRefusedError("aud does not hold oidc_audience")
        if "nbf" in claims and now_s < _date(claims, "nbf") - LEEWAY_S:
            raise TokenRefusedError("nbf is ahead")
        expires_s = _date(claims, "exp")
        if self.has_expired(expires_s, now_s):
            raise TokenRefusedError("it has expired")
        name = claims.get(self.principal_claim)
        if not isinstance(name, str) or not is_legal_user(name):
            raise TokenRefusedError(f"{self.principal_claim} is not a name that a user can have")
        # Who is let in by the leeway has what is left of it.
        return TokenHolder(
            name, int(1000 * (expires_s if now_s < expires_s else expires_s + LEEWAY_S))
        )

    def takes(self, algorithm: str) -> bool:
        """Return whether tokens may be signed so."""
        return algorithm in self.algorithms

    def is_issuer(self, issuer: object) -> bool:
        """Return whether this is the issuer."""
        return issuer == self.issuer

    def is_audience(self, audience: object) -> bool:
        """Return whether this is the audience, or a list that holds it."""
        return audience == self.audience or (
            isinstance(audience, list) and self.audience in audience
        )

    def has_expired(self, expires_s: float, now_s: float) -> bool:
        """Return whether a token that expires then has ended now."""
        return now_s >= expires_s + LEEWAY_S


def _date(claims: Mapping[str, Any], name: str) -> float:
    """Return the seconds since 1970 in a claim."""
    value = claims.get(name)
    # A comparison with NaN is false, so NaN is no date either.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST_S:
        raise TokenRefusedError(f"{name} is not there, or is no date")
    return value
