"""Heartbeat: a sign of life."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import GROUP, READ
from oncelog_broker.server.handlers.heartbeat import HeartbeatHandler
from oncelog_protocol.errors import GroupAuthorizationFailedError, UnknownMemberIdError
from oncelog_protocol.messages.groups import HeartbeatRequest
from support.group_world import GroupWorld
from support.server import Only, answer


def test_it_needs_read_on_the_group() -> None:
    handler = HeartbeatHandler(GroupWorld().groups, Only((READ, GROUP, "other")))
    with pytest.raises(GroupAuthorizationFailedError):
        answer(handler, HeartbeatRequest("g", 1, "m", None))


def test_it_asks_the_coordinator() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    handler = HeartbeatHandler(world.groups, Only((READ, GROUP, "g")))
    refused = answer(handler, HeartbeatRequest("g", 1, "m", None))
    assert refused.error_code == UnknownMemberIdError.code
    assert answer(handler, HeartbeatRequest("g", 1, player.member_id, None)).error_code == 0
