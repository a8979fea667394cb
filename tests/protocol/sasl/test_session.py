"""A session ends with what was shown or by the bound, and a client is early (KIP-368)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.sasl.session import reauthentication_delay_ms, session_ms_of


@pytest.mark.parametrize(
    ("expires_ms", "reauth_ms_max", "wanted"),
    [
        (None, 0, 0),
        (None, 3_600_000, 3_600_000),
        (1_000_500, 0, 500),
        (1_000_500, 400, 400),
        (1_000_500, 600, 500),
        (1_000_000, 0, 1),
        (999_000, 600, 1),
    ],
)
def test_a_session_has_the_earlier_of_two_ends(
    expires_ms: int | None, reauth_ms_max: int, wanted: int
) -> None:
    assert session_ms_of(expires_ms, 1_000_000, reauth_ms_max) == wanted


@given(st.integers(0, 2**53), st.floats(0, 1, exclude_max=True))
def test_a_client_authenticates_again_before_the_end(session_ms: int, chance: float) -> None:
    delay = reauthentication_delay_ms(session_ms, chance)
    assert session_ms * 84 // 100 <= delay <= session_ms * 96 // 100 + 1
    assert delay < max(1, session_ms)
