"""A client authenticates with what the server takes, and shows no secret in the open."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import (
    IllegalSaslStateError,
    LocalProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from oncelog_protocol.messages.authentication import AuthenticateRequest, AuthenticateResponse
from oncelog_protocol.sasl.client_authentication import ClientAuthentication, MechanismClient
from oncelog_protocol.sasl.credential import KeptKeys, Mechanism
from oncelog_protocol.sasl.oauth_bearer import OAuthBearerClient, TokenCheck, TokenHolder
from oncelog_protocol.sasl.outcomes import Continue, Done, Failed
from oncelog_protocol.sasl.plain import PasswordCheck, PlainClient
from oncelog_protocol.sasl.scram_client import ScramClient
from oncelog_protocol.sasl.server_authentication import SaslPorts, ServerAuthentication
from support.sasl import CLIENT_NONCE, SECRET, SERVER_NONCE, look_up

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512


def machine(mechanism: Mechanism, password: str = "pencil") -> MechanismClient:
    if mechanism is Mechanism.PLAIN:
        return PlainClient("user", password)
    if mechanism is Mechanism.OAUTHBEARER:
        return OAuthBearerClient("user")
    return ScramClient(mechanism, "user", password, CLIENT_NONCE, KeptKeys())


def judged(client: ClientAuthentication, *taken: Mechanism) -> tuple[Done | Failed, object]:
    """Run both ends against each other; return how it has ended for the client and the server."""
    ports = SaslPorts(taken, look_up, SECRET)
    server = ServerAuthentication(ports, nonce=SERVER_NONCE, encrypted=True)
    step: AuthenticateRequest | Done | Failed = client.start()
    while isinstance(step, AuthenticateRequest):
        outcome = server.step(step.mechanism, step.data)
        if isinstance(outcome, PasswordCheck):
            outcome = server.checked(outcome.holds())
        elif isinstance(outcome, TokenCheck):
            outcome = server.judged(TokenHolder(outcome.token, 5000))
        step = client.step(server.answer(outcome, session_ms=5000))
    return step, outcome


@pytest.mark.parametrize("mechanism", Mechanism)
def test_the_story_of_each_mechanism(mechanism: Mechanism) -> None:
    client = ClientAuthentication([machine(mechanism)], encrypted=True)
    mine, theirs = judged(client, *Mechanism)
    assert isinstance(mine, Done)
    assert isinstance(theirs, Done)
    assert theirs.name == "user"
    assert client.session_ms == 5000


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512, Mechanism.PLAIN])
def test_a_wrong_password(mechanism: Mechanism) -> None:
    client = ClientAuthentication([machine(mechanism, "wrong")], encrypted=True)
    mine, theirs = judged(client, *Mechanism)
    assert isinstance(mine, Failed)
    assert isinstance(theirs, Failed)
    assert mine.error is SaslAuthenticationFailedError
    assert "wrong password" not in mine.cause
    assert client.session_ms == 0


def test_the_first_of_ours_that_the_server_takes() -> None:
    machines = [machine(each) for each in (SHA_512, Mechanism.OAUTHBEARER, SHA_256)]
    mine, theirs = judged(ClientAuthentication(machines, encrypted=True), Mechanism.PLAIN, SHA_256)
    assert mine == Done("user")
    assert isinstance(theirs, Done)


def test_nothing_that_both_have() -> None:
    machines = [machine(SHA_512), machine(SHA_256)]
    mine, _ = judged(ClientAuthentication(machines, encrypted=True), Mechanism.PLAIN)
    assert isinstance(mine, Failed)
    assert mine.error is UnsupportedSaslMechanismError
    assert "it takes PLAIN" in mine.cause


def test_there_is_no_third_mechanism() -> None:
    machines = [machine(each) for each in (SHA_512, SHA_256, Mechanism.PLAIN)]
    client = ClientAuthentication(machines, encrypted=True)
    client.start()
    refusal = AuthenticateResponse(33, mechanisms=["SCRAM-SHA-256", "PLAIN"])
    assert isinstance(client.step(refusal), AuthenticateRequest)
    assert isinstance(client.step(refusal), Failed)


def test_no_other_mechanism_once_an_exchange_has_begun() -> None:
    """It holds for a server that has SCRAM's first message, and would like the password."""
    client = ClientAuthentication([machine(SHA_256), machine(Mechanism.PLAIN)], encrypted=True)
    ports = SaslPorts((SHA_256,), look_up, SECRET)
    server = ServerAuthentication(ports, nonce=SERVER_NONCE, encrypted=True)
    first = client.start()
    outcome = server.step(first.mechanism, first.data)
    assert isinstance(outcome, Continue)
    assert isinstance(client.step(server.answer(outcome)), AuthenticateRequest)
    assert isinstance(client.step(AuthenticateResponse(33, mechanisms=["PLAIN"])), Failed)


@pytest.mark.parametrize("mechanism", [Mechanism.PLAIN, Mechanism.OAUTHBEARER])
def test_no_secret_goes_over_a_plain_connection(mechanism: Mechanism) -> None:
    with pytest.raises(LocalProtocolError, match="needs TLS"):
        ClientAuthentication([machine(SHA_256), machine(mechanism)], encrypted=False)


def test_somebody_needs_a_mechanism() -> None:
    with pytest.raises(LocalProtocolError):
        ClientAuthentication([], encrypted=True)


@pytest.mark.hostile(27)
def test_consent_alone_is_not_enough() -> None:
    """It is row 27: a rogue server says yes at once."""
    client = ClientAuthentication([machine(SHA_256)], encrypted=False)
    client.start()
    assert isinstance(client.step(AuthenticateResponse()), Failed)
    assert isinstance(client.step(AuthenticateResponse()), Failed)


def test_a_session_of_less_than_nothing() -> None:
    client = ClientAuthentication([machine(Mechanism.PLAIN)], encrypted=True)
    client.start()
    assert isinstance(client.step(AuthenticateResponse(session_ms=-1)), Failed)
    assert isinstance(client.step(AuthenticateResponse()), Failed)


def test_an_error_of_the_server_is_told() -> None:
    client = ClientAuthentication([machine(SHA_256)], encrypted=True)
    client.start()
    failed = client.step(AuthenticateResponse(34, "out of turn"))
    assert failed == Failed("out of turn", IllegalSaslStateError)
