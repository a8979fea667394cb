"""LeaveGroup: one answer a member."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import GROUP, READ
from oncelog_broker.server.handlers.leave_group import LeaveGroupHandler
from oncelog_protocol.errors import GroupAuthorizationFailedError, UnknownMemberIdError
from oncelog_protocol.messages.groups import LeaveGroupRequest, LeavingMember
from support.group_world import GroupWorld
from support.server import Only, answer


def test_it_needs_read_on_the_group() -> None:
    handler = LeaveGroupHandler(GroupWorld().groups, Only((READ, GROUP, "other")))
    with pytest.raises(GroupAuthorizationFailedError):
        answer(handler, LeaveGroupRequest("g", [LeavingMember("m")]))


def test_it_asks_the_coordinator() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    handler = LeaveGroupHandler(world.groups, Only((READ, GROUP, "g")))
    members = [LeavingMember("m"), LeavingMember(player.member_id)]
    response = answer(handler, LeaveGroupRequest("g", members))
    assert [m.error_code for m in response.members] == [UnknownMemberIdError.code, 0]
    assert not world.group().members
