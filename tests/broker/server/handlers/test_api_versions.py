"""ApiVersions names everything that is spoken, and how the asker is known once it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oncelog_broker.server.handlers.api_versions import ApiVersionsHandler
from oncelog_broker.server.peer_identity import PeerIdentity
from oncelog_broker.server.request import ConnectionState
from oncelog_protocol.connection import recognition_in
from oncelog_protocol.identity import UNKNOWN, UNRECOGNISED, Recognition
from oncelog_protocol.messages.handshake import ApiVersionsRequest
from oncelog_protocol.registry import REQUESTS
from support.server import answer, make_context


def test_every_api_with_its_versions() -> None:
    response = answer(ApiVersionsHandler(UNKNOWN, "none"), ApiVersionsRequest())
    assert response.error_code == 0
    assert {a.api_key: (a.version_min, a.version_max) for a in response.apis} == {
        key: cls.versions for key, cls in REQUESTS.items()
    }


def told(**state: Any) -> Recognition:
    """Return what a connection in this state is told of itself."""
    connection = ConnectionState(**state)
    context = replace(
        make_context(),
        principal=connection.known.principal,
        listener="clients",
        connection=connection,
    )
    handler = ApiVersionsHandler(UNKNOWN, "acl")
    return recognition_in(answer(handler, ApiVersionsRequest(), context))


def test_who_must_authenticate_is_told_nothing() -> None:
    shown = PeerIdentity(certificate=b"der")
    assert told(must_authenticate=True, known=shown) == UNRECOGNISED


def test_how_the_asker_is_known() -> None:
    assert told() == Recognition("User:ANONYMOUS", "", "clients", "acl")
    by_certificate = PeerIdentity("User:app", b"der")
    assert told(known=by_certificate) == Recognition("User:app", "CERTIFICATE", "clients", "acl")


def test_a_mechanism_counts_more_than_a_certificate() -> None:
    state = ConnectionState(must_authenticate=True)
    state.proved(PeerIdentity("User:machine", b"der"))
    state.authenticated("User:app", 5.0, "PLAIN")
    assert told(known=state.known) == Recognition("User:app", "PLAIN", "clients", "acl")
