"""An issuer of tests signs tokens, and publishes its keys as real ones do."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from support.clock import ManualClock

__all__ = ["AUDIENCE", "ISSUER", "Issuer", "claims_at", "raw_token", "rsa_key"]

ISSUER, AUDIENCE = "https://issuer.example/realm", "oncelog"
NOW_S = ManualClock().now_ms() // 1000
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return a key, the same each time: making one takes long."""
    return rsa.generate_private_key(65537, bits)


def claims_at(now_s: float = NOW_S, **changed: Any) -> dict[str, Any]:
    """Return what a good token of five minutes says; what is changed to None is left out."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "app", "exp": int(now_s) + 300}
    return {name: value for name, value in {**claims, **changed}.items() if value is not None}


class Issuer:
    """It has an RSA key ``r`` and an EC key ``e``."""

    def __init__(self) -> None:
        self.keys: dict[str, PrivateKey] = {
            "r": rsa_key(),
            "e": ec.generate_private_key(ec.SECP256R1()),
        }

    def add(self, kid: str, key: PrivateKey | None = None) -> None:
        """Begin to use another key."""
        self.keys[kid] = key or ec.generate_private_key(ec.SECP256R1())

    def described(self, kid: str) -> dict[str, Any]:
        """Return a public key as it is published."""
        key = self.keys[kid]
        if isinstance(key, rsa.RSAPrivateKey):
            found = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        elif isinstance(key, ec.EllipticCurvePrivateKey):
            found = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        else:
            found = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
        return {**found, "kid": kid, "use": "sig"}

    def document(self) -> bytes:
        """Return all public keys as they are published."""
        return json.dumps({"keys": [self.described(kid) for kid in self.keys]}).encode()

    def token(
        self,
        claims: Mapping[str, Any] | None = None,
        *,
        kid: str = "e",
        algorithm: str = "ES256",
        header: Mapping[str, Any] | None = None,
    ) -> str:
        """Return a token that is signed by a key of this issuer."""
        said = dict(claims_at() if claims is None else claims)
        return jwt.encode(said, self.keys[kid], algorithm, headers={"kid": kid, **(header or {})})


def raw_token(header: Any, claims: Any, signature: bytes = b"") -> str:
    """Return a token of whatever stands in it."""
    parts = [
        part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)
    ]
    coded = [base64.urlsafe_b64encode(part) for part in (*parts, signature)]
    return b".".join(part.rstrip(b"=") for part in coded).decode()
