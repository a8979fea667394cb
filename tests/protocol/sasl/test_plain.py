"""PLAIN is checked against the SCRAM entry, and nobody is another one by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl.credential import Mechanism, ScramCredential
from oncelog_protocol.sasl.outcomes import Done, Failed
from oncelog_protocol.sasl.plain import PasswordCheck, PlainClient, PlainServer
from support.sasl import CREDENTIALS, SECRET, cause, look_up

RIGHT = b"\0user\0pencil"


def outcome_of(data: bytes) -> Done | Failed:
    server = PlainServer(look_up, SECRET)
    check = server.step(data)
    return server.checked(check.holds()) if isinstance(check, PasswordCheck) else check


def test_a_story() -> None:
    client = PlainClient("user", "pencil")
    assert client.start() == RIGHT
    assert outcome_of(RIGHT) == Done("user")
    assert client.step(b"") == Done("user")


def test_an_authzid_may_be_the_user() -> None:
    assert outcome_of(b"user\0user\0pencil") == Done("user")


def test_a_user_with_only_the_longer_hash() -> None:
    def only_longer(mechanism: Mechanism, name: str) -> ScramCredential | None:
        return CREDENTIALS[mechanism] if mechanism is Mechanism.SCRAM_SHA_512 else None

    server = PlainServer(only_longer, SECRET)
    check = server.step(RIGHT)
    assert isinstance(check, PasswordCheck)
    assert check.holds()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"user", b"user\0pencil", b"\0user\0pencil\0", b"\0\0pencil", b"\0us,er\0pencil",
        b"\0user\0pencil\xff", b"\0user", b"\0" * 2**14, b"\0user\0", b"\0user\0" + b"p" * 1025,
        b"\0USER\0pencil", b"\0user\0pencil ",
    ],
)  # fmt: skip
def test_what_lets_nobody_in(data: bytes) -> None:
    assert isinstance(outcome_of(data), Failed)


@pytest.mark.hostile(22)
@pytest.mark.cve("2017-12610")
def test_nobody_is_another_user() -> None:
    """It is row 22 of the hostile inputs."""
    assert "another one" in cause(outcome_of(b"admin\0user\0pencil"))


def test_no_byte_can_be_changed() -> None:
    for place in range(len(RIGHT)):
        for bit in range(8):
            changed = RIGHT[:place] + bytes([RIGHT[place] ^ 1 << bit]) + RIGHT[place + 1 :]
            assert isinstance(outcome_of(changed), Failed), changed


@pytest.mark.hostile(25)
def test_a_name_without_a_user_is_checked_as_well() -> None:
    """It is row 25: the same work, the same answer."""
    server = PlainServer(look_up, SECRET)
    check = server.step(b"\0nobody\0pencil")
    assert isinstance(check, PasswordCheck)
    assert not check.holds()
    assert "no such user" in cause(server.checked(False))


def test_nobodys_check_is_not_held_for_right() -> None:
    """A name without a user is nobody, whatever the hash says."""
    server = PlainServer(look_up, SECRET)
    server.step(b"\0nobody\0pencil")
    assert isinstance(server.checked(True), Failed)


def test_the_machine_hears_one_message() -> None:
    server = PlainServer(look_up, SECRET)
    assert isinstance(server.checked(True), Failed)
    server.step(RIGHT)
    assert isinstance(server.step(RIGHT), Failed)
    assert server.checked(True) == Done("user")
    assert isinstance(server.checked(True), Failed)


def test_the_password_is_in_no_repr() -> None:
    assert "pencil" not in repr(PlainServer(look_up, SECRET).step(RIGHT))


def test_a_server_that_answers_with_data_is_not_believed() -> None:
    assert isinstance(PlainClient("user", "pencil").step(b"x"), Failed)


@pytest.mark.parametrize(("name", "password"), [("", "p"), ("a b", "p"), ("a", ""), ("a", "\0")])
def test_what_no_client_sends(name: str, password: str) -> None:
    with pytest.raises(UnacceptableCredentialError):
        PlainClient(name, password)


@given(st.binary(max_size=100))
def test_no_bytes_whatever_get_in(data: bytes) -> None:
    assert isinstance(PlainServer(look_up, SECRET).step(data), Failed | PasswordCheck)
