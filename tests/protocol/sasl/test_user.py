"""A user has a name that is its own, and at most one password of each mechanism."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.sasl.user import CredentialRow, ScramUser, UserRow
from oncelog_protocol.schema import decode, encode
from support.sasl import CREDENTIALS, SHA_256, SHA_512

BOTH = (CREDENTIALS[SHA_256], CREDENTIALS[SHA_512])


def test_credentials_are_found_by_their_mechanism() -> None:
    user = ScramUser.made_of("app", 7, reversed(BOTH))
    assert user == ScramUser("app", 7, BOTH)
    assert [user.credential(each.mechanism) for each in BOTH] == list(BOTH)
    assert user.credential(Mechanism.PLAIN) is None
    assert ScramUser("app", 7, BOTH[:1]).credential(SHA_512) is None


@pytest.mark.parametrize("name", ["", "a" * 129, "a b", "a/b", "ä", "a\n", "User:a"])
def test_some_names_are_nobodys(name: str) -> None:
    with pytest.raises(UnacceptableCredentialError, match="a user's name has 1 to 128"):
        ScramUser(name, 0, BOTH)


def test_a_mechanism_has_one_credential() -> None:
    for credentials in (BOTH[:1] * 2, BOTH[::-1]):
        with pytest.raises(UnacceptableCredentialError, match="two credentials of one mechanism"):
            ScramUser("app", 0, credentials)


def test_no_key_is_shown() -> None:
    shown = repr(ScramUser("app", 7, BOTH))
    for each in BOTH:
        assert repr(each.stored_key) not in shown
        assert repr(each.server_key) not in shown


# ---- rows of messages


def test_a_user_goes_through_messages_and_comes_back() -> None:
    user = ScramUser("app", 7, BOTH, disabled=True)
    row = UserRow.of(user)
    assert decode(UserRow, encode(row, 0), 0) == row
    assert row.checked() == user
    assert UserRow("app").checked() is None


def test_a_row_shows_no_key() -> None:
    shown = repr(UserRow.of(ScramUser("app", 7, BOTH)))
    assert "'app'" in shown
    for each in BOTH:
        assert repr(each.stored_key) not in shown
        assert repr(each.server_key) not in shown


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mechanism": "SCRAM-SHA-1"}, "'SCRAM-SHA-1' is no mechanism"),
        ({"mechanism": "PLAIN"}, "PLAIN keeps no credential"),
        ({"iterations": 4095}, "iterations are 4096 to 1000000"),
        ({"salt": b"short"}, "a salt has 16 to 64 bytes"),
        ({"stored_key": b"short"}, "keys of SCRAM-SHA-256 have 32 bytes"),
    ],
)
def test_a_row_that_is_no_credential(change: dict[str, Any], reason: str) -> None:
    row = replace(CredentialRow.of(BOTH[0]), **change)
    with pytest.raises(UnacceptableCredentialError, match=reason):
        UserRow("app", 1, False, [row]).checked()
