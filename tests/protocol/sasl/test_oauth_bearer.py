"""OAUTHBEARER hands on a token that is framed rightly, and believes who judges it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.sasl.gs2 import SaslSyntaxError
from oncelog_protocol.sasl.oauth_bearer import (
    OAuthBearerClient,
    OAuthBearerServer,
    TokenCheck,
    TokenHolder,
    read_token,
)
from oncelog_protocol.sasl.outcomes import Done, Failed
from support.sasl import cause

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ1c2VyIn0.c2lnbmF0dXJl"
RIGHT = f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode()
EXPIRES_MS = 1_900_000_000_000


def outcome_of(data: bytes, name: str = "user") -> Done | Failed:
    """Return what comes of a message where the only token that is right names this user."""
    server = OAuthBearerServer()
    check = server.step(data)
    if isinstance(check, Failed):
        return check
    if check.token != TOKEN:
        return server.judged(ValueError("the signature does not hold"))
    return server.judged(TokenHolder(name, EXPIRES_MS))


def test_a_story() -> None:
    client = OAuthBearerClient(TOKEN)
    assert client.start() == RIGHT
    assert outcome_of(RIGHT) == Done("user", expires_ms=EXPIRES_MS)
    assert client.step(b"") == Done("")


def test_the_example_of_rfc_7628() -> None:
    data = (
        b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01"
        b"auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01"
    )
    token = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
    assert read_token(data) == ("user@example.com", token)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a=user,"])
def test_what_means_the_same(header: str, scheme: str) -> None:
    data = f"{header}\x01auth={scheme} {TOKEN}\x01\x01".encode()
    assert isinstance(outcome_of(data), Done)


BAD = {
    "channel binding": RIGHT.replace(b"n,,", b"p=tls-unique,,"),
    "no header": RIGHT.removeprefix(b"n,,"),
    "no frame": RIGHT.replace(b"\x01", b""),
    "no first mark": RIGHT.replace(b",\x01", b","),
    "one mark at the end": RIGHT[:-1],
    "something behind": RIGHT + b"x",
    "no token": b"n,,\x01auth=Bearer \x01\x01",
    "no pair": b"n,,\x01\x01",
    "another scheme": RIGHT.replace(b"Bearer", b"Basic"),
    "auth twice": RIGHT[:-1] + b"auth=Bearer x\x01\x01",
    "a pair that is none": RIGHT[:-1] + b"host\x01\x01",
    "a key with a digit": RIGHT[:-1] + b"a1=x\x01\x01",
    "two tokens": RIGHT[:-2] + b" x\x01\x01",
    "NUL": RIGHT.replace(b"auth", b"\0auth"),
    "not UTF-8": RIGHT.replace(b"auth", b"\xff\xffth"),
    "the answer to a failure": b"\x01",
    "nothing": b"",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_a_message_that_is_not_right_is_not_judged(data: bytes) -> None:
    assert isinstance(OAuthBearerServer().step(data), Failed)
    with pytest.raises(SaslSyntaxError):
        read_token(data)


@pytest.mark.parametrize(
    "error", [ValueError("no alg"), KeyError("kid"), RecursionError(), LookupError("x" * 10**6)]
)
def test_whatever_a_judge_trips_over_nobody_gets_in(error: Exception) -> None:
    server = OAuthBearerServer()
    assert server.step(RIGHT) == TokenCheck(TOKEN)
    why = cause(server.judged(error))
    assert type(error).__name__ in why
    assert len(why) < 300
    assert TOKEN not in why


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", "a\0b", "a\x01", "\u0430", "a:b", "a b"])
def test_a_token_that_names_nobody(name: str) -> None:
    assert "no user can have" in cause(outcome_of(RIGHT, name))


@pytest.mark.hostile(22)
@pytest.mark.cve("2017-12610")
def test_nobody_is_another_user() -> None:
    """It is row 22."""
    data = RIGHT.replace(b"n,,", b"n,a=admin,")
    assert "another one" in cause(outcome_of(data))


def test_no_byte_of_a_message_can_be_changed_to_another_meaning() -> None:
    """What may change is the case of the scheme alone."""
    for place in range(len(RIGHT)):
        for value in range(256):
            changed = RIGHT[:place] + bytes([value]) + RIGHT[place + 1 :]
            outcome = outcome_of(changed)
            if isinstance(outcome, Done):
                same = changed.lower() == RIGHT.lower() and changed[15:] == RIGHT[15:]
                assert same or changed[:1] == b"y", changed


def test_the_machine_hears_one_message() -> None:
    server = OAuthBearerServer()
    server.step(RIGHT)
    assert isinstance(server.step(RIGHT), Failed)


def test_a_token_is_judged_once_and_only_when_there_is_one() -> None:
    server, holder = OAuthBearerServer(), TokenHolder("user", EXPIRES_MS)
    assert isinstance(server.judged(holder), Failed)
    server.step(RIGHT)
    assert isinstance(server.judged(holder), Done)
    assert isinstance(server.judged(holder), Failed)
    assert TOKEN not in repr(TokenCheck(TOKEN))


def test_a_server_that_answers_with_data_is_not_believed() -> None:
    assert isinstance(OAuthBearerClient(TOKEN).step(b'{"status":"invalid_token"}'), Failed)


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=Bearer b", "a\n", "ä", "a,b"])
def test_what_no_client_sends(token: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        OAuthBearerClient(token)
    assert "characters that no token has" in str(caught.value)


@given(st.binary(max_size=200))
def test_no_bytes_whatever_get_in(data: bytes) -> None:
    assert isinstance(outcome_of(data), Failed)
