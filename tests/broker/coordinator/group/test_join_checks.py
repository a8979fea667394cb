"""JoinGroup: what is not legal is refused by type."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.coordinator.group.config import PROTOCOL_COUNT_MAX
from oncelog_broker.coordinator.group.join_checks import (
    check_group_id,
    check_join,
    make_member_id,
    offer_of,
)
from oncelog_protocol.errors import (
    InvalidGroupIdError,
    InvalidRequestError,
    InvalidSessionTimeoutError,
)
from oncelog_protocol.messages.groups import GroupProtocol, JoinGroupRequest
from oncelog_runtime.entropy import SeededEntropy
from support.room_settings import group_settings


def request(**changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [GroupProtocol("range", b"x"), GroupProtocol("sticky", b"")],
    }
    return JoinGroupRequest(**{**fields, **changes})


def test_what_is_legal_passes() -> None:
    check_join(request(), group_settings())
    check_join(request(session_timeout_ms=1_000), group_settings())
    check_join(
        request(session_timeout_ms=1_800_000, rebalance_timeout_ms=2**31 - 1), group_settings()
    )
    assert offer_of(request()).protocols == (("range", b"x"), ("sticky", b""))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"session_timeout_ms": 0}, InvalidSessionTimeoutError),
        ({"session_timeout_ms": -1}, InvalidSessionTimeoutError),
        ({"session_timeout_ms": 999}, InvalidSessionTimeoutError),
        ({"session_timeout_ms": 10**9}, InvalidSessionTimeoutError),
        ({"rebalance_timeout_ms": 0}, InvalidRequestError),
        ({"rebalance_timeout_ms": -1}, InvalidRequestError),
        ({"group_instance_id": ""}, InvalidRequestError),
        ({"protocols": [GroupProtocol("", b"")]}, InvalidRequestError),
        ({"protocols": [GroupProtocol("a", b""), GroupProtocol("a", b"")]}, InvalidRequestError),
        (
            {"protocols": [GroupProtocol(f"{n}", b"") for n in range(PROTOCOL_COUNT_MAX + 1)]},
            InvalidRequestError,
        ),
    ],
)
def test_what_is_not_is_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_join(request(**changes), group_settings())


def test_group_ids() -> None:
    check_group_id("g")
    with pytest.raises(InvalidGroupIdError):
        check_group_id("")


def test_member_ids_are_new_each_time() -> None:
    entropy = SeededEntropy(1)
    ids = {make_member_id("c", None, entropy) for _ in range(100)}
    assert len(ids) == 100
    assert make_member_id("c", "i", entropy).startswith("i-")
