"""DeleteGroups gives one result a group, in order."""

from __future__ import annotations

from oncelog_broker.server.authorizer import DELETE, GROUP
from oncelog_broker.server.handlers.delete_groups import DeleteGroupsHandler
from oncelog_protocol.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    NonEmptyGroupError,
)
from oncelog_protocol.messages.groups import DeleteGroupsRequest
from support.group_world import GroupWorld
from support.server import Only, answer


def test_each_for_itself() -> None:
    world = GroupWorld()
    for group in ("empty", "forbidden"):
        world.commit_offset(group=group)
    world.stable(1, group="full")
    allowed = Only(*((DELETE, GROUP, group) for group in ("empty", "full", "missing")))
    handler = DeleteGroupsHandler(world.groups, allowed)
    asked = ["missing", "forbidden", "empty", "full"]
    response = answer(handler, DeleteGroupsRequest(asked))
    assert [(result.group_id, result.error_code) for result in response.groups] == [
        ("missing", GroupIdNotFoundError.code),
        ("forbidden", GroupAuthorizationFailedError.code),
        ("empty", 0),
        ("full", NonEmptyGroupError.code),
    ]
    assert sorted(world.shard.groups) == ["forbidden", "full"]


def test_nothing() -> None:
    assert (
        answer(DeleteGroupsHandler(GroupWorld().groups, Only()), DeleteGroupsRequest([])).groups
        == []
    )
