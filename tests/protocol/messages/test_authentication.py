"""Authenticate carries at most 16 KiB, and shows none of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import schema
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.limits import SASL_DATA_BYTES_MAX
from oncelog_protocol.messages.authentication import AuthenticateRequest, AuthenticateResponse
from support.messages import messages


@given(st.one_of(messages(AuthenticateRequest), messages(AuthenticateResponse)))
def test_a_message_comes_back_as_it_went(message: object) -> None:
    assert schema.decode(type(message), schema.encode(message, 0), 0) == message


@pytest.mark.parametrize("data", [b"", b"x" * SASL_DATA_BYTES_MAX])
def test_the_longest_data_fit(data: bytes) -> None:
    request = AuthenticateRequest("PLAIN", data)
    assert schema.decode(AuthenticateRequest, schema.encode(request, 0), 0) == request


@pytest.mark.hostile(18)
def test_a_byte_more_is_refused_at_both_ends() -> None:
    """It is row 18 of the hostile inputs."""
    data = b"x" * (SASL_DATA_BYTES_MAX + 1)
    with pytest.raises(LocalProtocolError, match="data"):
        schema.encode(AuthenticateRequest("PLAIN", data), 0)
    with pytest.raises(RemoteProtocolError, match="data"):
        schema.decode(AuthenticateRequest, ["PLAIN", data], 0)
    with pytest.raises(RemoteProtocolError, match="data"):
        schema.decode(AuthenticateResponse, [0, None, data, 0, []], 0)


def test_data_are_in_no_repr() -> None:
    assert "pencil" not in repr(AuthenticateRequest("PLAIN", b"\0user\0pencil"))
    assert "pencil" not in repr(AuthenticateResponse(data=b"pencil"))
