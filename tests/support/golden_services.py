"""Brokers of the scripted cluster are out of service in these worlds of golden cases."""

from __future__ import annotations

from oncelog_protocol.messages.balance import BalanceResponse, PlannedReplicas
from oncelog_protocol.messages.broker_states import (
    MOVES,
    NOBODY_ELSE,
    NOT_PLANNED,
    AlterBrokerStatesResponse,
    HeldPartition,
)
from support.golden import World

__all__ = ["drains", "retires", "two_brokers"]

NO_ROOM = "no broker has room for it on its disks"
SINCE_MS = 1_000_000_000_000


async def drains(world: World) -> None:
    """Have broker 2 lead what nobody else can."""
    left = [HeldPartition("t", 0, NOBODY_ELSE)]
    answer = AlterBrokerStatesResponse(since_ms=SINCE_MS, by="User:me")
    answer.leaders_left, answer.leaders_left_count = left, 1
    world.scripted.services.left[2] = [answer]


async def two_brokers(world: World) -> None:
    """Have both brokers in service."""
    world.scripted.create_topic("t", 1)


async def retires(world: World) -> None:
    """Have broker 2 hold replicas of three partitions, and one of them alone."""
    left = [
        HeldPartition("t", number, why) for number, why in enumerate((NOT_PLANNED, MOVES, NO_ROOM))
    ]
    answer = AlterBrokerStatesResponse(since_ms=SINCE_MS, by="User:me")
    answer.replicas_left, answer.replicas_left_count = left, 3
    answer.lost_with_it, answer.lost_with_it_count = [HeldPartition("t", 2)], 1
    world.scripted.services.left[2] = [answer]
    world.scripted.disk = (16 * 1024**2, 12 * 1024**2)
    world.scripted.moves.balance = BalanceResponse(
        steps=[PlannedReplicas("t", 0, [2], [1], 2 * 1024**2, "evacuate")]
    )
