"""This module reads the keys by which an issuer signs tokens, from a JWK set (RFC 7517). Pure.

Rules
-----
* Of the document only public keys for signatures count, with an id, and long enough: all others are
  passed over. A document without any key of these is refused.
* A key is for the algorithms that fit its kind, and for one alone if it says which: no header of a
  token can turn an RSA key into the secret of an HMAC.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

__all__ = ["KID_CHARS_MAX", "KeySetError", "PublicKey", "SigningKeys", "read_keys"]

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey
SigningKeys = Mapping[tuple[str, str], PublicKey]
"""The key for each id and each algorithm that it is for."""

KEYS_MAX = 100
KID_CHARS_MAX = 256
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192
"""Shorter keys are broken soon (RFC 7518, 3.3); with longer ones each token takes milliseconds."""

_KINDS: Mapping[str, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_OF_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class KeySetError(ValueError):
    """The document is no set of keys; the text says why."""


def read_keys(document: bytes) -> SigningKeys:
    """Return the keys in a document. Takes about a tenth of a millisecond for each.

    :raises KeySetError: it is no JWK set, or has no key that counts.
    """
    try:
        listed = json.loads(document)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise KeySetError("it is not a JWK set: JSON with a list of keys") from None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise KeySetError(f"it has no list of keys, or more than {KEYS_MAX}")
    found: dict[tuple[str, str], PublicKey] = {}
    for described in listed:
        for kid, algorithm, key in _usable(described):
            found.setdefault((kid, algorithm), key)
    if not found:
        raise KeySetError("it has no public key for signatures with an id (kid)")
    return found


def _usable(described: Any) -> Iterator[tuple[str, str, PublicKey]]:
    """Yield a key by its id and each algorithm that it is for; nothing if it does not count."""
    if not isinstance(described, dict) or "d" in described:
        return
    kid, kind = described.get("kid"), _KINDS.get(str(described.get("kty")))
    if kind is None or not isinstance(kid, str) or not 1 <= len(kid) <= KID_CHARS_MAX:
        return
    if described.get("use", "sig") != "sig" or "verify" not in described.get("key_ops", ["verify"]):
        return
    try:
        key = kind.from_jwk(described)
    except Exception:  # PyJWT and cryptography raise many kinds for what is no key.
        return
    for algorithm in _algorithms_of(key):
        if described.get("alg", algorithm) == algorithm:
            yield kid, algorithm, key


def _algorithms_of(key: object) -> tuple[str, ...]:
    if isinstance(key, RSAPublicKey):
        return _OF_RSA if RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX else ()
    if isinstance(key, EllipticCurvePublicKey):
        fitting = _OF_CURVE.get(key.curve.name)
        return () if fitting is None else (fitting,)
    return ("EdDSA",) if isinstance(key, Ed25519PublicKey) else ()
