"""The judge of tokens lacks one of its rules here, for tests that prove that the rule is needed."""

from __future__ import annotations

from oncelog_broker.server.oidc.token_rules import TokenRules


class AnyAlgorithm(TokenRules):
    """The token says how it is to be verified."""

    def takes(self, algorithm: str) -> bool:
        """Whatever it says is fine."""
        return True


class AnyIssuer(TokenRules):
    """It takes whoever signed a token for the issuer."""

    def is_issuer(self, issuer: object) -> bool:
        """Nobody else has the key, or so one hopes."""
        return True


class IssuerBegins(TokenRules):
    """An issuer may go on after its name."""

    def is_issuer(self, issuer: object) -> bool:
        """A longer name is one of its places."""
        return isinstance(issuer, str) and issuer.startswith(self.issuer)


class AnyAudience(TokenRules):
    """A token for somebody else is good here too."""

    def is_audience(self, audience: object) -> bool:
        """The issuer is the same."""
        return True


class NeverExpires(TokenRules):
    """A token is good for ever."""

    def has_expired(self, expires_s: float, now_s: float) -> bool:
        """It was good once."""
        return False
