"""JoinGroup: who asks is remembered, and answered when the round is complete."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import GROUP, READ
from oncelog_broker.server.handlers.join_group import JoinGroupHandler
from oncelog_broker.server.request import ConnectionState, RequestContext
from oncelog_protocol.errors import GroupAuthorizationFailedError, MemberIdRequiredError
from oncelog_protocol.messages.groups import GroupProtocol, JoinGroupRequest
from support.group_world import Answer, GroupWorld
from support.server import Only, answer, make_context


def request(member_id: str = "") -> JoinGroupRequest:
    protocols = [GroupProtocol("range", b"")]
    return JoinGroupRequest("g", 10_000, 60_000, member_id, None, "consumer", protocols)


def test_it_needs_read_on_the_group() -> None:
    world = GroupWorld()
    handler = JoinGroupHandler(world.groups, Only((READ, GROUP, "other")))
    with pytest.raises(GroupAuthorizationFailedError):
        answer(handler, request())
    assert not world.shard.groups


@pytest.mark.parametrize("peer", ["10.1.2.3:4711", "[::1]:4711"])
def test_it_joins(peer: str) -> None:
    world = GroupWorld()
    handler = JoinGroupHandler(world.groups, Only((READ, GROUP, "g")))
    context = RequestContext("external", False, "User:x", "billing", peer, 0, ConnectionState())
    first = answer(handler, request(), context)
    assert first.error_code == MemberIdRequiredError.code
    parked = Answer()
    handler.handle(context, request(first.member_id), memoryview(b""), parked)
    assert parked.waits
    world.advance(1)
    assert parked.code == 0
    (member,) = world.group().members.values()
    assert member.client_id == "billing"
    assert member.client_host == peer.removesuffix(":4711")


def test_an_answer_may_be_given_at_once() -> None:
    handler = JoinGroupHandler(GroupWorld().groups, Only((READ, GROUP, "g")))
    assert answer(handler, request("stranger"), make_context()).member_id == "stranger"
