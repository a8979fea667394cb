"""Of a document only the issuer's public keys for signatures are taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from oncelog_broker.server.oidc.signing_keys import KEYS_MAX, KeySetError, read_keys
from support.tokens import Issuer, rsa_key

OF_RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


def document(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()


def test_keys_are_for_the_algorithms_of_their_kind() -> None:
    issuer = Issuer()
    issuer.add("e384", ec.generate_private_key(ec.SECP384R1()))
    issuer.add("e521", ec.generate_private_key(ec.SECP521R1()))
    issuer.add("k1", ec.generate_private_key(ec.SECP256K1()))
    issuer.add("ed", ed25519.Ed25519PrivateKey.generate())
    found = set(read_keys(issuer.document()))
    others = {("e", "ES256"), ("e384", "ES384"), ("e521", "ES512"), ("ed", "EdDSA")}
    assert found == {("r", each) for each in OF_RSA} | others


def test_a_key_may_be_for_one_algorithm_alone() -> None:
    described = {**Issuer().described("r"), "alg": "PS256"}
    assert set(read_keys(document(described))) == {("r", "PS256")}


UNUSABLE: dict[str, dict[str, Any]] = {
    "no id": {"kid": None},
    "an empty id": {"kid": ""},
    "an id of megabytes": {"kid": "k" * 10**6},
    "a number as id": {"kid": 7},
    "for encryption": {"use": "enc"},
    "to sign with": {"key_ops": ["sign"]},
    "no kind": {"kty": None},
    "a secret": {"kty": "oct", "k": "c2VjcmV0"},
    "a kind that is a list": {"kty": []},
    "for an HMAC": {"alg": "HS256"},
    "for none": {"alg": "none"},
    "for another kind": {"alg": "ES256"},
    "a private part": {"d": "AQAB"},
    "no number": {"n": "!"},
    "a number that is none": {"n": 3},
}


@pytest.mark.parametrize("changed", UNUSABLE.values(), ids=UNUSABLE)
def test_what_does_not_count_is_passed_over(changed: dict[str, Any]) -> None:
    issuer = Issuer()
    described = {**issuer.described("r"), **changed}
    assert set(read_keys(document(described, issuer.described("e")))) == {("e", "ES256")}
    with pytest.raises(KeySetError, match="no public key"):
        read_keys(document(described))


@pytest.mark.parametrize("bits", [1024, 16384])
def test_keys_of_rsa_have_a_length(bits: int) -> None:
    public = rsa_key(bits=1024).public_key()
    described = RSAAlgorithm.to_jwk(public, as_dict=True)
    if bits > 8192:  # making a real one takes minutes
        described["n"] = "_" * (bits * 4 // 3 // 8)
    with pytest.raises(KeySetError, match="no public key"):
        read_keys(document({**described, "kid": "r"}))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"\xff",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"keys": 3}',
        b'{"keys": []}',
        b'{"keys": [1, null, "x", []]}',
        b"[" * 200_000,
        b'{"keys": [' + b"9" * 5000 + b"]}",
    ],
    ids=range(12),
)
def test_what_is_no_set_of_keys(content: bytes) -> None:
    with pytest.raises(KeySetError):
        read_keys(content)


def test_a_set_has_a_bound() -> None:
    described = Issuer().described("e")
    assert read_keys(document(*[described] * KEYS_MAX))
    with pytest.raises(KeySetError, match="more than"):
        read_keys(document(*[described] * (KEYS_MAX + 1)))


@given(st.binary(max_size=200))
def test_no_bytes_whatever_do_harm(content: bytes) -> None:
    with pytest.raises(KeySetError):
        read_keys(content)
