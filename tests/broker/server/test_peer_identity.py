"""What is known of a peer says by what it is known."""

from __future__ import annotations

import pytest

from oncelog_broker.server.peer_identity import NOBODY_KNOWN, PeerIdentity


@pytest.mark.parametrize(
    ("known", "by"),
    [
        (NOBODY_KNOWN, ""),
        (PeerIdentity("User:app", b"der"), "CERTIFICATE"),
        (PeerIdentity("User:app", mechanism="SCRAM-SHA-256"), "SCRAM-SHA-256"),
        (PeerIdentity("User:app", b"der", mechanism="PLAIN"), "PLAIN"),
    ],
)
def test_by_what_a_peer_is_known(known: PeerIdentity, by: str) -> None:
    assert known.authenticated_by == by
