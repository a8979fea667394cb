"""ListGroups: those that the principal may see."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_NAME,
    DESCRIBE,
    GROUP,
    AllowAllAuthorizer,
    Authorizer,
)
from oncelog_broker.server.handlers.list_groups import ListGroupsHandler
from oncelog_protocol.errors import CoordinatorLoadInProgressError
from oncelog_protocol.messages.groups import ListGroupsRequest
from support.group_world import GroupWorld
from support.server import Only, answer


@pytest.mark.parametrize(
    ("authorizer", "seen"),
    [
        (AllowAllAuthorizer(), ["a", "b"]),
        (Only((DESCRIBE, CLUSTER, CLUSTER_NAME)), ["a", "b"]),
        (Only((DESCRIBE, GROUP, "b")), ["b"]),
        (Only(), []),
    ],
)
def test_listing(authorizer: Authorizer, seen: list[str]) -> None:
    world = GroupWorld()
    world.commit_offset(group="b")
    world.commit_offset(group="a")
    response = answer(ListGroupsHandler(world.groups, authorizer), ListGroupsRequest())
    assert [group.group_id for group in response.groups] == seen


def test_states_and_what_is_not_known_yet() -> None:
    world = GroupWorld()
    world.commit_offset(group="a")
    world.stable(1, group="b")
    world.loading = True
    handler = ListGroupsHandler(world.groups, AllowAllAuthorizer())
    response = answer(handler, ListGroupsRequest(["Stable"]))
    assert response.error_code == CoordinatorLoadInProgressError.code
    assert [group.group_id for group in response.groups] == ["b"]
