"""Partitions of the scripted cluster move, or should, in these worlds of golden cases."""

from __future__ import annotations

import json

from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.balance import (
    BalanceResponse,
    GoalMeasure,
    HeldUpPartition,
    PlannedReplicas,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.moves import (
    COPYING,
    NOT_KNOWN,
    QUEUED,
    STALLED,
    MovePlan,
    PartitionMove,
)
from support.fake_cluster import Action
from support.golden import World, tp

__all__ = ["even", "moves", "moves_of_no_known_size", "moves_that_nobody_tells", "uneven"]

DISK = (16 * 1024**2, 12 * 1024**2)
"""So large the disks are, and so much of them is free."""
SINCE_MS = 1_000_000_000_000


async def moves(world: World) -> None:
    """Have topic t with three partitions at broker 1. The second moves to broker 2, the third
    stalls; topic u waits for its turn."""
    fake = world.scripted
    fake.disk = DISK
    fake.create_topic("t", 3)
    for number in range(3):
        fake.moves.settled[tp("t", number)] = [1]
    fake.moves.bytes_to_copy, fake.moves.seconds = 3 * 1024**2, 600
    fake.moves.plans["p-1"] = MovePlan("p-1", "User:me", "old disk", SINCE_MS, 0)
    size, rate = 8 * 1024**2, 1024**2
    for number, phase, done in ((1, COPYING, size // 2), (2, STALLED, 0)):
        reason = "broker 2 is not registered" if phase == STALLED else ""
        fake.moves.open[tp("t", number)] = PartitionMove(
            *("t", number, "p-1", [1, 2], [1], [2], [], phase),
            *(size, done, rate if done else 0, SINCE_MS, reason),
        )
    fake.create_topic("u")
    fake.moves.open[tp("u")] = PartitionMove("u", 0, "p-1", [1, 2], [1, 2], [2], [], QUEUED)
    rows = [{"topic": "t", "partition": 0, "replicas": [2, 1]}]
    (world.directory / "kafka.json").write_text(json.dumps({"version": 1, "partitions": rows}))


async def uneven(world: World) -> None:
    """The controller would move two partitions of topic t, and cannot move a third one."""
    fake = world.scripted
    fake.disk = DISK
    fake.create_topic("t", 3)
    for number in range(3):
        fake.moves.settled[tp("t", number)] = [1]
    fake.moves.balance = BalanceResponse(
        steps=[
            PlannedReplicas("t", 0, [1], [2], 3 * 1024**2, "replicas"),
            PlannedReplicas("t", 1, [1], [2], 1024**2, "bytes"),
        ],
        measures=[GoalMeasure("replicas", 2, 0), GoalMeasure("bytes", 5 * 1024**2, 1024)],
        held_up=[HeldUpPartition("t", 2, "whole", "it has no leader")],
    )


async def even(world: World) -> None:
    """The controller would move nothing."""
    world.scripted.moves.balance = BalanceResponse(measures=[GoalMeasure("replicas", 0, 0)])


async def moves_of_no_known_size(world: World) -> None:
    """Do the same, and let nobody know how much there is to copy."""
    await moves(world)
    world.scripted.moves.bytes_to_copy = world.scripted.moves.seconds = NOT_KNOWN


async def moves_that_nobody_tells(world: World) -> None:
    """Do the same, and let whoever asks not know."""
    await moves(world)
    world.scripted.rule(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, Action.ERROR, error=ClusterAuthorizationFailedError
    )
