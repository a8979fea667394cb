"""SyncGroup: the assignment of a member."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import GROUP, READ
from oncelog_broker.server.handlers.sync_group import SyncGroupHandler
from oncelog_protocol.errors import GroupAuthorizationFailedError, UnknownMemberIdError
from oncelog_protocol.messages.groups import SyncGroupRequest
from support.group_world import GroupWorld
from support.server import Only, answer


def test_it_needs_read_on_the_group() -> None:
    handler = SyncGroupHandler(GroupWorld().groups, Only((READ, GROUP, "other")))
    with pytest.raises(GroupAuthorizationFailedError):
        answer(handler, SyncGroupRequest("g", 1, "m", None, None, None))


def test_it_asks_the_coordinator() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    handler = SyncGroupHandler(world.groups, Only((READ, GROUP, "g")))
    refused = answer(handler, SyncGroupRequest("g", 1, "m", None, None, None))
    assert refused.error_code == UnknownMemberIdError.code
    response = answer(handler, SyncGroupRequest("g", 1, player.member_id, None, None, None))
    assert (response.error_code, response.assignment) == (0, player.member_id.encode())
