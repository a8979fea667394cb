"""The admin client moves partitions to other brokers, cancels moves, and lists what moves.

They are Kafka's reassignments (KIP-455). What is asked for is a plan, which the controller keeps in
its store: it begins few moves at a time, and finishes them whatever dies meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, item_error, known
from oncelog.admin.results import Results
from oncelog.errors import ApiError
from oncelog_protocol.messages import moves as wire
from oncelog_protocol.messages.moves import (
    COPYING,
    IN_SYNC,
    LEAVING,
    PHASES,
    QUEUED,
    STALLED,
    TURNING_BACK,
    WARMING,
)
from oncelog_protocol.types import TopicPartition

__all__ = [
    "COPYING",
    "IN_SYNC",
    "LEAVING",
    "PHASES",
    "QUEUED",
    "STALLED",
    "TURNING_BACK",
    "WARMING",
    "ListedReassignments",
    "PartitionReassignment",
    "ReassignmentAdmin",
    "ReassignmentOutcome",
    "ReassignmentPlan",
    "Reassignments",
]


@dataclass(frozen=True, slots=True)
class ReassignmentOutcome:
    """It says what became of the wish for one partition; None stands for what is not known."""

    partition: TopicPartition
    error: ApiError | None = None
    bytes_to_copy: int | None = None
    """So much the replicas that are added have to be given, all together."""
    seconds: int | None = None
    """So long the copy takes at the present pace."""


class Reassignments(Results[ReassignmentOutcome]):
    """The results have an outcome a partition; ``plan_id`` names what was kept of the wishes."""

    def __init__(self, outcomes: Iterable[ReassignmentOutcome], plan_id: str) -> None:
        super().__init__(outcomes)
        self.plan_id = plan_id
        """It is "" when nothing was to be kept."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r}, {self.plan_id!r})"


@dataclass(frozen=True, slots=True)
class ReassignmentPlan:
    """Somebody has asked for these moves at once."""

    plan_id: str
    by: str
    """The principal that has asked."""
    reason: str
    since_ms: int | None
    """Wall clock, in ms since 1970."""
    queued: int
    """So many of its partitions have not begun."""


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition is to move, moves, or has left data that is still to be deleted.

    Lists of replicas are broker ids, the preferred leader first. None stands for what is not known.
    """

    partition: TopicPartition
    plan_id: str
    phase: str
    """It is one of ``PHASES``."""
    replicas: tuple[int, ...]
    """These have the partition now; while it moves, the original ones and those that are added."""
    origin: tuple[int, ...] = ()
    """These had it before the move."""
    target: tuple[int, ...] = ()
    """These are to have it; there are none when data is still to be deleted and nothing else."""
    leaving: tuple[int, ...] = ()
    """These have no replica any more, and may still have its data."""
    bytes_total: int | None = None
    bytes_done: int | None = None
    bytes_per_s: int | None = None
    since_ms: int | None = None
    """The phase began then: wall clock, in ms since 1970."""
    reason: str = ""
    """It says for people what the phase waits for; "" is for nothing."""

    @property
    def is_open(self) -> bool:
        """Return whether the replicas are in the course of a change."""
        return bool(self.origin and self.target) and self.phase not in (QUEUED, LEAVING)

    @property
    def adding(self) -> tuple[int, ...]:
        """Return the replicas that an open move adds."""
        return tuple(r for r in self.target if r not in self.origin) if self.is_open else ()

    @property
    def removing(self) -> tuple[int, ...]:
        """Return the replicas that an open move takes away at its end."""
        return tuple(r for r in self.replicas if r not in self.target) if self.is_open else ()


@dataclass(frozen=True, slots=True)
class ListedReassignments:
    """It is what the controller has of moves at one moment."""

    plans: tuple[ReassignmentPlan, ...] = ()
    partitions: tuple[PartitionReassignment, ...] = ()


class ReassignmentAdmin(AdminCalls):
    """It is the admin client's part for moves of partitions."""

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        expected: Mapping[TopicPartition, Sequence[int]] | None = None,
        allow_replication_factor_change: bool = False,
        now: bool = False,
        reason: str = "",
        validate_only: bool = False,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Reassignments:
        """Give partitions other replicas, and return when the controller has kept the plan.

        The moves go on after that: see :meth:`list_partition_reassignments`. A partition that moves
        already gets the new target. Partitions that are refused do not keep the others from it.
        Errors of items: INVALID_REPLICA_ASSIGNMENT (no broker, one twice, or one that is not
        registered or goes), INVALID_REPLICATION_FACTOR, INVALID_UPDATE_VERSION (its replicas are
        not the expected ones), NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION,
        POLICY_VIOLATION.

        :param targets: the brokers that are to have each partition, the preferred leader first;
            None cancels what moves there.
        :param expected: a partition is left alone unless it has these replicas now.
        :param allow_replication_factor_change: without it a target has as many replicas as there
            were before.
        :param now: of moves that are cancelled: the original replicas need not have caught up with
            those that were added.
        :param reason: a text that is shown with the plan.
        :raises UnsupportedVersionError: a broker runs a release that knows no moves.
        """
        expectations = expected or {}
        items = [
            wire.ReassignedPartition(
                *TopicPartition(*tp),
                None if target is None else list(target),
                list(expectations[tp]) if tp in expectations else None,
            )
            for tp, target in targets.items()
        ]
        request = wire.AlterPartitionReassignmentsRequest(
            items, allow_replication_factor_change, now, reason, validate_only, timeout_ms
        )
        response = await self._on_controller(request, timeout_ms)
        return Reassignments((_outcome(item) for item in response.items), response.plan_id)

    async def list_partition_reassignments(
        self, topics: Iterable[str] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> ListedReassignments:
        """Return what moves, what waits for its turn, and what is still to be deleted.

        :param topics: only partitions of these; topics that do not exist are passed over.
        """
        names = None if topics is None else list(dict.fromkeys(topics))
        request = wire.ListPartitionReassignmentsRequest(names, timeout_ms)
        response = await self._on_controller(request, timeout_ms)
        plans = (
            ReassignmentPlan(plan.plan_id, plan.by, plan.reason, known(plan.since_ms), plan.queued)
            for plan in response.plans
        )
        moves = (_reassignment(item) for item in response.partitions)
        return ListedReassignments(tuple(plans), tuple(moves))


def _outcome(item: wire.ReassignmentResult) -> ReassignmentOutcome:
    tp = TopicPartition(item.topic, item.partition)
    error = item_error(item.error_code, item.error_message, str(tp))
    return ReassignmentOutcome(tp, error, known(item.bytes_to_copy), known(item.seconds))


def _reassignment(item: wire.PartitionMove) -> PartitionReassignment:
    return PartitionReassignment(
        TopicPartition(item.topic, item.partition),
        item.plan_id,
        item.phase,
        tuple(item.replicas),
        tuple(item.origin),
        tuple(item.target),
        tuple(item.leaving),
        known(item.bytes_total),
        known(item.bytes_done),
        known(item.bytes_per_s),
        known(item.since_ms),
        item.reason,
    )
