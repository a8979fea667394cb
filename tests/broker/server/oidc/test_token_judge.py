"""Tokens are believed that their issuer made, for us and for now: and no other."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import astuple
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from oncelog_broker.server.oidc.key_ring import KeyRing, NoSuchKeyError
from oncelog_broker.server.oidc.token_judge import IN_LINE_MAX, TokenJudge
from oncelog_broker.server.oidc.token_rules import TokenRefusedError, TokenRules
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_runtime.threads import Threads
from support.clock import ManualClock
from support.tokens import AUDIENCE, ISSUER, NOW_S, Issuer, claims_at, raw_token, rsa_key
from unsafe import tokens as unsafe

RULES = TokenRules(ISSUER, AUDIENCE, "sub", ("RS256", "ES256"))


class Published:
    """It is a source of what an issuer publishes."""

    name, every_s, pause_s = "https://issuer.example/keys", 600.0, 30.0

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer

    async def read(self) -> bytes:
        return self.issuer.document()


class Court:
    """It knows a judge and the issuer whose tokens are judged."""

    def __init__(self, rules: TokenRules = RULES) -> None:
        self.issuer = Issuer()
        self.clock = ManualClock()
        self.threads = Threads(2, "test")
        self.keys = KeyRing(Published(self.issuer), self.threads)
        self.judge = TokenJudge(rules, self.keys, self.clock, self.threads)


@pytest.fixture
async def court() -> AsyncIterator[Court]:
    found = Court()
    await found.keys.load()
    yield found
    found.threads.close()


@pytest.mark.parametrize(("kid", "algorithm"), [("r", "RS256"), ("e", "ES256")])
async def test_a_good_token(court: Court, kid: str, algorithm: str) -> None:
    token = court.issuer.token(kid=kid, algorithm=algorithm)
    assert astuple(await court.judge.judge(token)) == ("app", 1000 * (NOW_S + 300))
    court.clock.advance(360_000)
    with pytest.raises(TokenRefusedError, match="expired"):
        await court.judge.judge(token)


def by_hmac(issuer: Issuer, kid: str) -> str:
    """Return a token whose secret is the issuer's public key, which everybody has."""
    public = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = raw_token({"alg": "HS256", "kid": kid}, claims_at()).rpartition(".")[0]
    mac = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    return raw_token({"alg": "HS256", "kid": kid}, claims_at(), mac)


def hostile_tokens(issuer: Issuer) -> dict[str, str]:
    """Return tokens of which none is to be believed."""
    other = Issuer()
    other.keys["r"] = rsa_key(1)
    good, header = issuer.token(), {"alg": "ES256", "kid": "e"}
    head, body, signature = good.split(".")
    made_up = raw_token(header, claims_at(sub="admin")).split(".")[1]
    return {
        "alg none": raw_token({"alg": "none", "kid": "e"}, claims_at()),
        "alg none without kid": raw_token({"alg": "none"}, claims_at()),
        "alg HS256 with the public key": by_hmac(issuer, "r"),
        "alg of another kind": issuer.token(kid="r", algorithm="PS256"),
        "alg that the key is not for": raw_token({"alg": "RS256", "kid": "e"}, claims_at()),
        "somebody else's key": other.token(),
        "somebody else's RSA key": other.token(kid="r", algorithm="RS256"),
        "somebody else's key in the header": other.token(
            header={"jwk": {**other.described("e"), "kid": "e"}}
        ),
        "a place of keys in the header": other.token(header={"jku": "https://evil.example/keys"}),
        "a certificate in the header": other.token(header={"x5c": ["MIIB"]}),
        "no signature": f"{head}.{body}.",
        "a signature of zeros": raw_token(header, claims_at(), bytes(64)),
        "another's claims": f"{head}.{made_up}.{signature}",
        "two parts": f"{head}.{body}",
        "four parts": f"{good}.x",
        "encrypted": f"{good}.x.y",
        "no base64": f"{head}.{body}!.{signature}",
        "no JSON": raw_token(header, b"{"),
        "a list of claims": raw_token(header, [1]),
        "a deep header": raw_token(b"[" * 10_000, claims_at()),
        "a header that is a list": raw_token([], claims_at()),
        "a kid of megabytes": raw_token({**header, "kid": "k" * (1 << 21)}, claims_at()),
        "an unknown kid": raw_token({**header, "kid": "x"}, claims_at(), bytes(64)),
        "a kid that is a path": raw_token({**header, "kid": "../../e"}, claims_at(), bytes(64)),
        "a kid that is a list": raw_token({**header, "kid": ["e"]}, claims_at(), bytes(64)),
        "wrong aud": issuer.token(claims_at(aud="kafka")),
        "no aud": issuer.token(claims_at(aud=None)),
        "iss as a prefix": issuer.token(claims_at(iss=ISSUER + ".evil.example")),
        "another iss": issuer.token(claims_at(iss="https://evil.example")),
        "expired": issuer.token(claims_at(exp=NOW_S - 61)),
        "no exp": issuer.token(claims_at(exp=None)),
        "nbf ahead": issuer.token(claims_at(nbf=NOW_S + 90)),
        "a name that nobody can have": issuer.token(claims_at(sub="User:admin")),
        "nothing": "",
        "dots": "..",
    }


async def believed(court: Court) -> list[str]:
    """Return which of the hostile tokens the judge believes."""
    found: list[str] = []
    told: list[str] = []
    tokens = hostile_tokens(court.issuer)
    for name, token in tokens.items():
        try:
            await court.judge.judge(token)
            found.append(name)
        except (TokenRefusedError, NoSuchKeyError) as error:
            told.append(str(error))
    assert all(len(text) < 150 for text in told)
    assert not any(token and token in text for token in tokens.values() for text in told)
    return found


@pytest.mark.hostile(29, 30, 31)
@pytest.mark.cve("OAUTHBEARER", "2025-27817")
async def test_no_hostile_token_is_believed(court: Court) -> None:
    assert await believed(court) == []


@pytest.mark.parametrize(
    ("rules", "lets_in"),
    [
        pytest.param(
            unsafe.AnyIssuer,
            ["iss as a prefix", "another iss"],
            marks=pytest.mark.ablation("token_issuer"),
        ),
        pytest.param(
            unsafe.IssuerBegins,
            ["iss as a prefix"],
            marks=pytest.mark.ablation("token_whole_issuer"),
        ),
        pytest.param(
            unsafe.AnyAudience,
            ["wrong aud", "no aud"],
            marks=pytest.mark.ablation("token_audience"),
        ),
        pytest.param(unsafe.NeverExpires, ["expired"], marks=pytest.mark.ablation("token_expiry")),
        pytest.param(
            unsafe.AnyAlgorithm,
            ["alg of another kind"],
            marks=pytest.mark.ablation("token_algorithm"),
        ),
    ],
)
async def test_without_a_rule_tokens_get_in(rules: type[TokenRules], lets_in: list[str]) -> None:
    court = Court(rules(*astuple(RULES)))
    await court.keys.load()
    try:
        assert await believed(court) == lets_in
    finally:
        court.threads.close()


async def test_no_byte_of_a_token_can_be_changed(court: Court) -> None:
    token = court.issuer.token()
    for place in range(len(token) - 1):  # the last character has bits that mean nothing
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        with pytest.raises((TokenRefusedError, NoSuchKeyError)):
            await court.judge.judge(changed)


async def test_signatures_wait_in_a_line_with_an_end(court: Court) -> None:
    token = court.issuer.token()
    judged: list[Any] = await asyncio.gather(
        *(court.judge.judge(token) for _ in range(3 * IN_LINE_MAX)), return_exceptions=True
    )
    late = [each for each in judged if isinstance(each, BrokerNotAvailableError)]
    assert len(late) == 2 * IN_LINE_MAX
    assert (await court.judge.judge(token)).name == "app"
