"""A broker hears four messages of one mechanism, and tells a peer nothing about a failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import (
    IllegalSaslStateError,
    LocalProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from oncelog_protocol.sasl.credential import KeptKeys, Mechanism
from oncelog_protocol.sasl.oauth_bearer import TokenCheck, TokenHolder
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.plain import PasswordCheck
from oncelog_protocol.sasl.scram_client import ScramClient
from oncelog_protocol.sasl.server_authentication import (
    FAILURE_TEXT,
    SaslPorts,
    ServerAuthentication,
)
from support.sasl import CLIENT_NONCE, SECRET, SERVER_NONCE, look_up, sent

SCRAM = "SCRAM-SHA-256"
PLAIN = b"\0user\0pencil"
PORTS = SaslPorts(tuple(Mechanism), look_up, SECRET)
TOKEN = b"n,,\x01auth=Bearer user\x01\x01"


def new_server(ports: SaslPorts = PORTS, again: str = "") -> ServerAuthentication:
    return ServerAuthentication(ports, nonce=SERVER_NONCE, encrypted=True, again=again)


def client() -> ScramClient:
    return ScramClient(Mechanism.SCRAM_SHA_256, "user", "pencil", CLIENT_NONCE, KeptKeys())


def error_of(outcome: object) -> type[Exception]:
    assert isinstance(outcome, Failed), outcome
    return outcome.error


def is_last(outcome: object) -> bool:
    assert isinstance(outcome, Failed), outcome
    return outcome.is_last


def by_scram(
    server: ServerAuthentication,
) -> Continue | Done | Failed | PasswordCheck | TokenCheck:
    peer = client()
    return server.step(SCRAM, sent(peer.step(sent(server.step(SCRAM, peer.start())))))


def by_password(server: ServerAuthentication, data: bytes = PLAIN) -> Continue | Done | Failed:
    check = server.step("PLAIN", data)
    assert isinstance(check, PasswordCheck)
    return server.checked(check.holds())


def by_token(server: ServerAuthentication) -> Continue | Done | Failed:
    check = server.step("OAUTHBEARER", TOKEN)
    assert isinstance(check, TokenCheck)
    return server.judged(TokenHolder(check.token, 5000))


def test_each_mechanism_says_who_it_is() -> None:
    scram = by_scram(new_server())
    assert isinstance(scram, Done)
    assert scram.name == "user"
    assert by_password(new_server()) == Done("user")
    assert by_token(new_server()) == Done("user", expires_ms=5000)


@pytest.mark.parametrize("other", ["SCRAM-SHA-512", "PLAIN", "", "scram-sha-256"])
def test_the_first_message_fixes_the_mechanism(other: str) -> None:
    server = new_server()
    sent(server.step(SCRAM, client().start()))
    outcome = server.step(other, PLAIN)
    assert error_of(outcome) is IllegalSaslStateError
    assert is_last(outcome)


@pytest.mark.parametrize("name", ["", "GSSAPI", "scram-sha-256", "PLAIN\0", "x" * 1024])
@pytest.mark.hostile(17)
def test_a_mechanism_that_is_not_taken(name: str) -> None:
    """It is row 17 of the hostile inputs; the peer may try once more."""
    server = new_server()
    outcome = server.step(name, b"")
    assert error_of(outcome) is UnsupportedSaslMechanismError
    assert not is_last(outcome)
    assert isinstance(outcome, Failed)
    assert server.answer(outcome).mechanisms == [str(each) for each in Mechanism]
    assert isinstance(by_scram(server), Done)


@pytest.mark.hostile(16)
def test_a_third_mechanism_is_not_heard() -> None:
    """It is row 16."""
    server = new_server()
    assert not is_last(server.step("GSSAPI", b""))
    assert is_last(server.step("NTLM", b""))
    assert error_of(server.step("PLAIN", PLAIN)) is IllegalSaslStateError


@pytest.mark.parametrize(("name", "data"), [("PLAIN", PLAIN), ("OAUTHBEARER", TOKEN)])
@pytest.mark.hostile(17)
def test_without_tls_no_secret_is_asked_for(name: str, data: bytes) -> None:
    """It is row 17."""
    server = ServerAuthentication(PORTS, nonce=SERVER_NONCE, encrypted=False)
    outcome = server.step(name, data)
    assert error_of(outcome) is UnsupportedSaslMechanismError
    assert isinstance(outcome, Failed)
    assert server.answer(outcome).mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.mark.hostile(16)
def test_two_messages_at_once() -> None:
    """It is row 16: the second comes while the password of the first is checked."""
    server = new_server()
    check = server.step("PLAIN", PLAIN)
    assert isinstance(check, PasswordCheck)
    assert error_of(server.step("PLAIN", PLAIN)) is IllegalSaslStateError
    assert isinstance(server.checked(True), Failed)


def test_nothing_is_heard_after_the_end() -> None:
    for server in (new_server(), new_server()):
        assert isinstance(by_scram(server), Done)
        assert error_of(server.step(SCRAM, client().start())) is IllegalSaslStateError
    failed = new_server()
    failed.step("OAUTHBEARER", b"")
    assert error_of(failed.step("OAUTHBEARER", TOKEN)) is IllegalSaslStateError
    assert isinstance(new_server().checked(True), Failed)
    assert isinstance(new_server().judged(TokenHolder("user", 5000)), Failed)


@pytest.mark.hostile(33)
def test_who_authenticates_again_is_the_same() -> None:
    """It is row 33."""
    assert isinstance(by_scram(new_server(again="user")), Done)
    for outcome in (
        by_scram(new_server(again="admin")),
        by_password(new_server(again="admin")),
        by_token(new_server(again="admin")),
    ):
        assert error_of(outcome) is SaslAuthenticationFailedError
        assert is_last(outcome)


def test_a_failure_has_one_text() -> None:
    server = new_server()
    outcomes = [
        by_password(new_server(), b"\0user\0wrong"),
        by_password(new_server(), b"\0nobody\0pencil"),
        new_server().step("OAUTHBEARER", b"?"),
        new_server().step(SCRAM, b"p=x,,n=user,r=123456789"),
        by_scram(new_server(again="admin")),
    ]
    causes = set()
    for outcome in outcomes:
        assert isinstance(outcome, Failed)
        causes.add(outcome.cause)
        answer = server.answer(outcome)
        assert (answer.error_code, answer.error_message) == (58, FAILURE_TEXT)
        assert (answer.data, answer.session_ms, answer.mechanisms) == (b"", 0, [])
    assert len(causes) == len(outcomes)


def test_answers_of_an_exchange_that_goes_well() -> None:
    server = new_server()
    answer = server.answer(Continue(b"x"), 7)
    assert (answer.error_code, answer.data, answer.session_ms) == (0, b"x", 0)
    answer = server.answer(Done("user", b"y"), 7)
    assert (answer.error_code, answer.data, answer.session_ms) == (0, b"y", 7)


@pytest.mark.cve("OAUTHBEARER")
def test_what_was_found_of_a_password_makes_no_token_good() -> None:
    server = new_server()
    assert isinstance(server.step("OAUTHBEARER", TOKEN), TokenCheck)
    assert isinstance(server.checked(True), Failed)
    other = new_server()
    assert isinstance(other.step("PLAIN", PLAIN), PasswordCheck)
    assert isinstance(other.judged(TokenHolder("user", 5000)), Failed)


def test_the_nonce_is_looked_at_before_anything() -> None:
    with pytest.raises(LocalProtocolError):
        ServerAuthentication(PORTS, nonce=b"", encrypted=True)


def test_the_clusters_secret_is_in_no_repr() -> None:
    assert "secret of" not in repr(PORTS)


@given(st.lists(st.tuples(st.sampled_from([*Mechanism, "GSSAPI"]), st.binary(max_size=60))))
def test_no_messages_whatever_get_in(messages: list[tuple[str, bytes]]) -> None:
    server = new_server(SaslPorts(tuple(Mechanism), look_up, SECRET))
    ended = False
    for mechanism, data in messages:
        outcome = server.step(mechanism, data)
        assert not isinstance(outcome, Done)
        if ended:
            assert error_of(outcome) is IllegalSaslStateError
        ended = ended or (isinstance(outcome, Failed) and outcome.is_last)
