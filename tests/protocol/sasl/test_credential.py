"""A cluster keeps of a password what RFC 5802 and RFC 7677 say, and proofs are theirs too."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl import credential as credentials
from oncelog_protocol.sasl.credential import (
    ITERATIONS_DEFAULT,
    SALT_BYTES,
    SCRAM_HASHES,
    KeptKeys,
    Mechanism,
    ScramCredential,
    derived_keys,
    proof_of,
    stand_in,
    xor,
)
from oncelog_protocol.sasl.gs2 import SaslSyntaxError, escaped, is_legal_user, unescaped
from oncelog_protocol.sasl.saslprep import prepared_password, saslprep
from oncelog_protocol.sasl.scram_messages import signed
from support.sasl import (
    CREDENTIALS,
    SALT,
    SECRET,
    SHA_256,
    SHA_512,
    Derivations,
)

BOTH = pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])


@pytest.fixture
def derivations(monkeypatch: pytest.MonkeyPatch) -> Derivations:
    """Return the list in which each derivation of keys leaves its origin."""
    made = Derivations()
    monkeypatch.setattr(credentials, "derived_keys", made.derive)
    return made


# ---- credential.py: the arithmetic of RFC 5802, and what a cluster keeps


@BOTH
def test_a_credential_of_what_somebody_else_has_derived(mechanism: Mechanism) -> None:
    hash_name = SCRAM_HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(hash_name, b"pencil", SALT, 4096)
    assert ScramCredential.of_salted(mechanism, salted, SALT, 4096) == CREDENTIALS[mechanism]
    with pytest.raises(UnacceptableCredentialError, match="no salted password"):
        ScramCredential.of_salted(mechanism, salted[:-1], SALT, 4096)
    with pytest.raises(UnacceptableCredentialError, match="keeps no credential"):
        ScramCredential.of_salted(Mechanism.PLAIN, bytes(32), SALT, 4096)


def test_the_example_of_rfc_5802() -> None:
    """Its hash is SHA-1, which no mechanism here has: the arithmetic is the same."""
    bare = "n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    server = "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    unproved = "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    keys = derived_keys("sha1", b"pencil", base64.b64decode("QSXCR+Q6sek8bf92"), 4096)
    messages = signed(bare, server, unproved)
    assert proof_of(keys, messages, "sha1") == base64.b64decode("v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=")
    signature = hmac.digest(keys.server_key, messages, "sha1")
    assert signature == base64.b64decode("rmF9pqV8S7suAoZWja4dJRkFsKQ=")


def test_the_example_of_rfc_7677_at_the_server() -> None:
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    messages = signed(
        "n=user,r=rOprNGfwEbeRWgbNEkqO",
        f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        f"c=biws,r={nonce}",
    )
    kept = CREDENTIALS[SHA_256]
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert kept.accepts(proof, messages)
    assert not kept.accepts(proof, messages + b" ")
    assert not kept.accepts(proof[:-1], messages)
    wanted = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert kept.signature(messages) == wanted


@BOTH
def test_a_credential_by_other_means(mechanism: Mechanism) -> None:
    """It writes the definitions of RFC 5802 with other calls of the library."""
    name = SCRAM_HASHES[mechanism]
    block = hmac.new(b"pencil", SALT + b"\0\0\0\1", name).digest()
    salted = block
    for _ in range(4095):
        block = hmac.new(b"pencil", block, name).digest()
        salted = xor(salted, block)
    client_key = hmac.new(salted, b"Client Key", name).digest()
    kept = CREDENTIALS[mechanism]
    assert kept.stored_key == hashlib.new(name, client_key).digest()
    assert kept.server_key == hmac.new(salted, b"Server Key", name).digest()


@BOTH
def test_a_password_is_checked_against_its_credential(mechanism: Mechanism) -> None:
    kept = CREDENTIALS[mechanism]
    assert kept.check("pencil")
    assert kept.check("p\u00adencil"), "SASLprep leaves the soft hyphen out"
    for wrong in ("", "pencils", "Pencil", "p" * 1025, "pen\ncil"):
        assert not kept.check(wrong)


@pytest.mark.hostile(26)
def test_no_empty_string_passes_for_a_password_that_cannot_be() -> None:
    """A password that cannot be prepared is hashed as nothing, and nothing must not fit."""
    keys = derived_keys("sha256", b"", SALT, 4096)
    stored_key = hashlib.sha256(keys.client_key).digest()
    empty = ScramCredential(SHA_256, SALT, 4096, stored_key, keys.server_key)
    assert not empty.check("")
    assert not empty.check("p" * 1025)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": Mechanism.PLAIN},
        {"iterations": 4095},
        {"iterations": 1_000_001},
        {"salt": bytes(15)},
        {"salt": bytes(65)},
        {"stored_key": bytes(31)},
        {"server_key": bytes(64)},
    ],
    ids=str,
)
def test_a_credential_that_is_not_accepted(change: dict[str, Any]) -> None:
    with pytest.raises(UnacceptableCredentialError):
        dataclasses.replace(CREDENTIALS[SHA_256], **change)


@pytest.mark.parametrize(
    ("mechanism", "password", "iterations"),
    [(SHA_256, "pencil", 10**9), (Mechanism.PLAIN, "pencil", 4096), (SHA_256, "", 4096)],
)
def test_what_no_credential_is_made_of(
    mechanism: Mechanism, password: str, iterations: int
) -> None:
    with pytest.raises(UnacceptableCredentialError):
        ScramCredential.make(mechanism, password, SALT, iterations)


def test_no_secret_is_in_a_repr() -> None:
    kept = CREDENTIALS[SHA_256]
    keys = derived_keys("sha256", b"pencil", SALT, 4096)
    for secret in (kept.stored_key, kept.server_key, keys.client_key):
        assert repr(secret) not in repr(kept) + repr(keys) + repr([keys]) + str(keys)


@BOTH
def test_a_name_without_a_user_has_a_credential_like_any_other(mechanism: Mechanism) -> None:
    nobody = stand_in(SECRET, mechanism, "nobody")
    assert nobody == stand_in(SECRET, mechanism, "nobody")
    assert len(nobody.salt) == SALT_BYTES
    assert nobody.iterations == ITERATIONS_DEFAULT
    for other in (stand_in(SECRET, mechanism, "else"), stand_in(bytes(32), mechanism, "nobody")):
        assert other.salt != nobody.salt
        assert other.stored_key != nobody.stored_key


def test_keys_are_derived_once_for_a_salt(derivations: Derivations) -> None:
    kept = KeptKeys()
    for salt, iterations in ((SALT, 4096), (SALT, 4096), (SALT, 4097), (bytes(16), 4097)):
        kept.of("sha256", b"pencil", salt, iterations)
    assert len(derivations) == 3
    kept.of("sha256", b"other", bytes(16), 4097)
    assert len(derivations) == 4
    assert "pencil" not in repr(vars(kept).keys()) + repr(kept)


# ---- saslprep.py: one password from every keyboard


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0627\u0628", "\u0627\u0628"),
    ],
)
def test_the_examples_of_rfc_4013(text: str, wanted: str) -> None:
    assert saslprep(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "", "\u00ad", "\u0007", "\u06271", "\u0627a\u0627", "a\0b", "\ud800", "\ue000", "\u0221",
        "x" * 1025,
    ],
    ids=ascii,
)  # fmt: skip
@pytest.mark.hostile(26)
def test_what_no_password_is(text: str) -> None:
    """Row 26 of the hostile inputs is the first and the last."""
    with pytest.raises(UnacceptableCredentialError):
        prepared_password(text)


def test_the_longest_password() -> None:
    assert prepared_password("é" * 1024) == "é".encode() * 1024


@given(st.text(max_size=30))
def test_a_password_that_is_prepared_stays_so(text: str) -> None:
    try:
        prepared = prepared_password(text)
    except UnacceptableCredentialError:
        return
    assert prepared_password(prepared.decode()) == prepared


# ---- gs2.py: names and headers


@pytest.mark.parametrize("name", ["a", "a.b-c_d@e+f", "x" * 128, "0"])
def test_a_legal_user(name: str) -> None:
    assert is_legal_user(name)


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "a,b", "a=b", "ä", "a\n", "\u0430"])
def test_what_no_user_is_called(name: str) -> None:
    assert not is_legal_user(name)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_a_name_comes_back_from_its_escapes(name: str) -> None:
    assert unescaped(escaped(name)) == name
    assert "," not in escaped(name)


@pytest.mark.parametrize("text", ["", "=", "=2", "=2c", "=3d", "=2D", "a=", "a=b", "a,b", "=00"])
def test_an_escape_that_is_none(text: str) -> None:
    with pytest.raises(SaslSyntaxError):
        unescaped(text)
