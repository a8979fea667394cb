"""A stranger has few bytes and few greetings."""

from __future__ import annotations

import pytest

from oncelog_protocol import limits
from oncelog_protocol.errors import RemoteProtocolError
from oncelog_protocol.strangers import Stranger


def test_bytes_have_a_bound() -> None:
    stranger = Stranger()
    stranger.sends(limits.UNAUTHENTICATED_BYTES_MAX - 1)
    stranger.sends(1)
    with pytest.raises(RemoteProtocolError, match="bytes before the peer is known"):
        stranger.sends(1)


def test_greetings_have_a_bound() -> None:
    stranger = Stranger()
    for _ in range(limits.UNAUTHENTICATED_HELLOS_MAX):
        stranger.greets()
    with pytest.raises(RemoteProtocolError, match="3 ApiVersions before authentication"):
        stranger.greets()
