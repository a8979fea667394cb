"""An authentication lasts for a session, and both ends know how long that is (KIP-368). Pure."""

from __future__ import annotations

REAUTHENTICATE_FROM = 0.85
REAUTHENTICATE_UNTIL = 0.95
"""The part of a session after which a client authenticates again; drawn, so that not all do at
once."""


def session_ms_of(expires_ms: int | None, now_ms: int, reauth_ms_max: int) -> int:
    """Return how many milliseconds a new session lasts; 0: for ever.

    :param expires_ms: when what the peer showed expires, in milliseconds since 1970; None: never.
    :param reauth_ms_max: ``connections_max_reauth_ms``; 0: there is no such bound.
    """
    if expires_ms is None:
        return reauth_ms_max
    left = max(1, expires_ms - now_ms)
    return min(left, reauth_ms_max) if reauth_ms_max else left


def reauthentication_delay_ms(session_ms: int, chance: float) -> int:
    """Return after how many milliseconds of a session that ends a client authenticates again.

    :param chance: a number in [0, 1) that was drawn for this session.
    """
    part = REAUTHENTICATE_FROM + chance * (REAUTHENTICATE_UNTIL - REAUTHENTICATE_FROM)
    return int(session_ms * part)
