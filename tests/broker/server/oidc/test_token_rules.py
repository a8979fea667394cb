"""Rules say which tokens are believed, and each of them is needed."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.server.oidc.token_rules import LEEWAY_S, Named, TokenRefusedError, TokenRules
from support.tokens import AUDIENCE, ISSUER, NOW_S, claims_at

RULES = TokenRules(ISSUER, AUDIENCE, "sub", ("RS256", "ES256"))
HEADER = {"alg": "ES256", "kid": "e", "typ": "at+jwt", "x5t": "dGh1bWI"}


def test_a_good_token_names_its_holder() -> None:
    assert RULES.named_by(HEADER) == Named("e", "ES256")
    holder = RULES.holder(claims_at(), NOW_S)
    assert (holder.name, holder.expires_ms) == ("app", 1000 * (NOW_S + 300))
    several = claims_at(aud=["account", AUDIENCE], nbf=NOW_S - 1, email="app@x.org")
    assert RULES.holder(several, NOW_S) == holder
    by_email = TokenRules(ISSUER, AUDIENCE, "email", ("ES256",))
    assert by_email.holder(several, NOW_S).name == "app@x.org"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"alg": "none"}, "oidc_algorithms"),
        ({"alg": "None"}, "oidc_algorithms"),
        ({"alg": "HS256"}, "oidc_algorithms"),
        ({"alg": "es256"}, "oidc_algorithms"),
        ({"alg": "RS512"}, "oidc_algorithms"),
        ({"alg": ["ES256"]}, "oidc_algorithms"),
        ({"alg": None}, "oidc_algorithms"),
        ({"kid": None}, "kid"),
        ({"kid": ""}, "kid"),
        ({"kid": 3}, "kid"),
        ({"kid": "k" * 257}, "kid"),
        ({"jku": "https://evil.example/keys"}, "jku"),
        ({"x5u": "https://evil.example/keys"}, "x5u"),
        ({"jwk": {"kty": "RSA"}}, "jwk"),
        ({"x5c": []}, "x5c"),
        ({"crit": ["exp"]}, "crit"),
        ({"b64": False}, "b64"),
    ],
)
@pytest.mark.hostile(29, 31)
def test_a_header_that_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(TokenRefusedError, match=said) as caught:
        RULES.named_by({**HEADER, **changed})
    assert len(str(caught.value)) < 100


BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "no issuer": {"iss": None},
    "another issuer": {"iss": "https://evil.example"},
    "an issuer that begins alike": {"iss": ISSUER + ".evil.example"},
    "the beginning of the issuer": {"iss": ISSUER[:-1]},
    "an issuer with a slash": {"iss": ISSUER + "/"},
    "issuers": {"iss": [ISSUER]},
    "no audience": {"aud": None},
    "another audience": {"aud": "kafka"},
    "an audience that begins alike": {"aud": AUDIENCE + "2"},
    "audiences without it": {"aud": ["a", "b"]},
    "an audience within another": {"aud": [[AUDIENCE]]},
    "audiences as keys": {"aud": {AUDIENCE: 1}},
    "no end": {"exp": None},
    "expired": {"exp": NOW_S - LEEWAY_S},
    "an end as text": {"exp": str(NOW_S + 300)},
    "an end that is true": {"exp": True},
    "an end that is no number": {"exp": float("nan")},
    "an end that is never": {"exp": float("inf")},
    "an end after all dates": {"exp": 10**18},
    "an end before all dates": {"exp": -1},
    "not yet": {"nbf": NOW_S + LEEWAY_S + 1},
    "not yet as text": {"nbf": "1"},
    "nobody": {"sub": None},
    "a number": {"sub": 7},
    "an empty name": {"sub": ""},
    "a name with a space": {"sub": "app two"},
    "a name that looks like another": {"sub": "\u0430pp"},
    "a name of a megabyte": {"sub": "a" * 10**6},
    "a name with a colon": {"sub": "User:admin"},
    "everybody": {"sub": "*"},
}


@pytest.mark.parametrize("changed", BAD_CLAIMS.values(), ids=BAD_CLAIMS)
@pytest.mark.hostile(30)
def test_claims_that_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(TokenRefusedError) as caught:
        RULES.holder(claims_at(**changed), NOW_S)
    assert len(str(caught.value)) < 100


def test_clocks_may_differ_by_a_minute() -> None:
    early = claims_at(nbf=NOW_S + LEEWAY_S)
    assert RULES.holder(early, NOW_S).name == "app"
    late = claims_at(exp=NOW_S)
    assert RULES.holder(late, NOW_S - 1).expires_ms == 1000 * NOW_S
    for behind in (0, LEEWAY_S - 1):
        assert RULES.holder(late, NOW_S + behind).expires_ms == 1000 * (NOW_S + LEEWAY_S)
    with pytest.raises(TokenRefusedError, match="expired"):
        RULES.holder(late, NOW_S + LEEWAY_S)
