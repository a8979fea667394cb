"""The admin client asks the controller which replicas should move, and why.

Nothing moves by that. :meth:`ReassignmentAdmin.alter_partition_reassignments` carries a plan out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, known
from oncelog_protocol.messages import balance as wire
from oncelog_protocol.messages.balance import (
    BALANCE,
    EVACUATE,
    GOALS,
    PURPOSES,
    REPAIR,
    REPLICATION_FACTOR,
)
from oncelog_protocol.types import TopicPartition

__all__ = [
    "BALANCE",
    "EVACUATE",
    "GOALS",
    "PURPOSES",
    "REPAIR",
    "REPLICATION_FACTOR",
    "BalanceAdmin",
    "GoalDistance",
    "PartitionHeldUp",
    "PlannedBalance",
    "PlannedMove",
]


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A partition would get other replicas, or another order of them.

    Replicas are broker ids, the preferred leader first.
    """

    partition: TopicPartition
    replicas: tuple[int, ...]
    """These have the partition now."""
    target: tuple[int, ...]
    """These would have it."""
    bytes_to_copy: int | None
    """So many have to be copied; None stands for what is not known."""
    goal: str
    """It is the first one of ``GOALS`` that this serves."""
    seconds: int | None = None
    """One copy takes so long at the pace of the last hour; None stands for what is not known."""

    @property
    def adding(self) -> tuple[int, ...]:
        """Return the brokers that would get a copy."""
        return tuple(r for r in self.target if r not in self.replicas)

    @property
    def removing(self) -> tuple[int, ...]:
        """Return the brokers that would have no replica any more."""
        return tuple(r for r in self.replicas if r not in self.target)


@dataclass(frozen=True, slots=True)
class GoalDistance:
    """It says how far the cluster is from a goal; 0 stands for one that is reached.

    Units are replicas for evacuate, whole, topics and replicas; partitions for leaders; racks;
    bytes for disks and bytes; bytes a second for writes.
    """

    goal: str
    before: int
    after: int
    """So far it would be after the plan."""


@dataclass(frozen=True, slots=True)
class PartitionHeldUp:
    """A partition cannot be placed as one of the goals evacuate and whole asks."""

    partition: TopicPartition
    goal: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlannedBalance:
    """It is what the controller would move, at one moment."""

    moves: tuple[PlannedMove, ...] = ()
    """They are in the order of topics and partitions."""
    goals: tuple[GoalDistance, ...] = ()
    held_up: tuple[PartitionHeldUp, ...] = ()

    @property
    def targets(self) -> dict[TopicPartition, list[int]]:
        """Return what ``alter_partition_reassignments`` wants as ``targets``."""
        return {move.partition: list(move.target) for move in self.moves}

    @property
    def expected(self) -> dict[TopicPartition, list[int]]:
        """Return what it wants as ``expected``, so that nothing moves that was changed since."""
        return {move.partition: list(move.replicas) for move in self.moves}


class BalanceAdmin(AdminCalls):
    """It is the admin client's part for plans."""

    async def balance(
        self,
        purpose: str = BALANCE,
        *,
        topics: Iterable[str] | None = None,
        replication_factor: int = 0,
        goals: Iterable[str] | None = None,
        max_moves: int | None = None,
        max_bytes: int | None = None,
        from_brokers: Iterable[int] = (),
        timeout_ms: int = TIMEOUT_MS,
    ) -> PlannedBalance:
        """Return which replicas should move; nothing moves.

        A plan has no step that could be left out: each is needed for one of the goals. Goals come
        in the order of ``GOALS``, and none becomes worse for a later one.

        :param purpose: one of ``PURPOSES``.
        :param topics: only their partitions may move; None: those of all topics.
        :param replication_factor: so many replicas these topics are to have, for the purpose of
            that name.
        :param goals: of the purpose's goals only these; None: all of them.
        :param max_moves: so many replicas are copied at most.
        :param max_bytes: so many bytes are copied at most, as far as brokers have reported sizes.
        :param from_brokers: replicas of these topics leave these brokers, for the purpose
            ``EVACUATE``.
        :raises InvalidRequestError: there is no such purpose or goal, a bound is below 0, or
            brokers are named for another purpose.
        :raises InvalidReplicationFactorError: too few brokers may take replicas.
        :raises UnknownTopicOrPartitionError: there is no such topic.
        :raises PolicyViolationError: too many others wait for a plan.
        """
        request = wire.BalanceRequest(
            purpose,
            None if topics is None else list(dict.fromkeys(topics)),
            replication_factor,
            None if goals is None else list(dict.fromkeys(goals)),
            wire.NO_BOUND if max_moves is None else max_moves,
            wire.NO_BOUND if max_bytes is None else max_bytes,
            timeout_ms,
            list(dict.fromkeys(from_brokers)),
        )
        response = await self._on_controller(request, timeout_ms)
        return PlannedBalance(
            tuple(_planned(step) for step in response.steps),
            tuple(GoalDistance(each.goal, each.before, each.after) for each in response.measures),
            tuple(
                PartitionHeldUp(TopicPartition(each.topic, each.partition), each.goal, each.reason)
                for each in response.held_up
            ),
        )


def _planned(step: wire.PlannedReplicas) -> PlannedMove:
    return PlannedMove(
        TopicPartition(step.topic, step.partition),
        tuple(step.replicas),
        tuple(step.target),
        known(step.bytes),
        step.goal,
        known(step.seconds),
    )
