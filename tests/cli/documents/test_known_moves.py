"""The controller is asked what moves beside something else, which does not fail with it."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import Admin
from oncelog.errors import UnsupportedVersionError
from oncelog_cli.documents.known_moves import known_moves
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.moves import COPYING, PartitionMove
from support.admin_cluster import AdminCluster
from support.fake_cluster import Action
from support.golden import tp


async def test_what_moves(fake: AdminCluster, asker: Admin) -> None:
    fake.create_topic("t")
    fake.moves.open[tp("t")] = PartitionMove("t", 0, "p", [1, 2], [1], [2], [], COPYING)
    known = await known_moves(asker)
    move = known.of("t", 0)
    assert move is not None
    assert (move.adding, move.removing, known.reason) == ((2,), (1,), "")
    assert (await known_moves(asker, ["u"])).by_partition == {}


@pytest.mark.parametrize("error", [ClusterAuthorizationFailedError, UnsupportedVersionError])
async def test_what_nobody_tells(fake: AdminCluster, asker: Admin, error: type[Any]) -> None:
    fake.rule(ApiKey.LIST_PARTITION_REASSIGNMENTS, Action.ERROR, error=error)
    known = await known_moves(asker)
    assert known.by_partition is None
    assert known.reason
