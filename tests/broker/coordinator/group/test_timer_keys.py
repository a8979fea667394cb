"""No two timers share a key, whatever people call their groups."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.coordinator.group.timer_keys import (
    EXPIRY_KEY,
    again_key,
    join_key,
    session_key,
    sync_key,
)

NAMES = st.text(alphabet="a 1", min_size=1, max_size=5)


@given(NAMES, NAMES, NAMES, NAMES)
def test_sessions_are_apart(group: str, member: str, other: str, another: str) -> None:
    same = (group, member) == (other, another)
    assert (session_key(group, member) == session_key(other, another)) is same


@given(NAMES, NAMES)
def test_kinds_are_apart(group: str, member: str) -> None:
    keys = {EXPIRY_KEY, join_key(group), sync_key(group), again_key(group)}
    assert len(keys | {session_key(group, member)}) == 5
