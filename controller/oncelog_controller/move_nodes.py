"""What somebody wants to move is kept in nodes of the store; their contents are made here. Pure.

A plan is ``/admin/moves/ID``: who wants it and why, and a wish for each partition. What does not
fit there is in children ``/admin/moves/ID/N``, N from 1 on. A wish names the id of its topic, so
that it means nothing for a topic of the same name that was made later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from oncelog_controller import znodes
from oncelog_protocol.types import TopicPartition

WISHES_OF_NODE_MAX = 2_000
"""With the longest names of topics that is some 700 KB, below ZooKeeper's 1 MB."""


class Priority(IntEnum):
    """Moves of a lower number go first."""

    REPAIR = 0
    """Replicas are missing."""
    EVACUATE = 1
    """A broker is taken out of service."""
    WISH = 2
    """A person has asked for it."""
    BALANCE = 3


class MoveWish(NamedTuple):
    """A partition is to have these replicas, the preferred leader first."""

    topic: str
    topic_id: str
    partition: int
    target: tuple[int, ...]

    @property
    def name(self) -> TopicPartition:
        """Return the name of the partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class PlanHead:
    """It tells of one plan all but its wishes."""

    plan_id: str
    by: str
    """The principal who wants it; "": a part of the cluster."""
    reason: str
    since_ms: int
    """When it was taken, in milliseconds since 1970 by the controller's wall clock."""
    keep_replication_factor: bool = True
    priority: Priority = Priority.WISH
    now: bool = False
    """Whether moves that are cancelled give up what only the replicas hold that were added."""
    evacuates: tuple[int, ...] = ()
    """The plan is void for replicas on those of these brokers that are back in service."""

    @property
    def order(self) -> tuple[int, int]:
        """Return what grows from plan to plan: the later one wins where two name a partition."""
        epoch, number = self.plan_id.split("-")
        return int(epoch), int(number)


class PieceRead(NamedTuple):
    """It is one node of a plan, 0 for that of the plan itself."""

    number: int
    version: int
    wishes: tuple[MoveWish, ...]


@dataclass(frozen=True, slots=True)
class PlanRead:
    """A plan was read from the store."""

    head: PlanHead
    pieces: tuple[PieceRead, ...]


def plan_id(controller_epoch: int, number: int) -> str:
    """Return the id of a plan: the number is counted in each term."""
    return f"{controller_epoch}-{number}"


def plan_path(name: str, number: int = 0) -> str:
    """Return the path of a plan, or of one of its further nodes."""
    return f"{znodes.MOVES}/{name}/{number}" if number else f"{znodes.MOVES}/{name}"


def encode_plan(head: PlanHead, wishes: Sequence[MoveWish]) -> bytes:
    """Encode the node of a plan, with its first wishes."""
    return znodes.dump(
        {
            "by": head.by,
            "reason": head.reason,
            "since_ms": head.since_ms,
            "keep_replication_factor": head.keep_replication_factor,
            "priority": head.priority.name.lower(),
            "now": head.now,
            "evacuates": head.evacuates,
            "wishes": wishes,
        }
    )


def encode_wishes(wishes: Sequence[MoveWish]) -> bytes:
    """Encode a further node of a plan."""
    return znodes.dump({"wishes": wishes})


def decode_plan(name: str, data: bytes) -> tuple[PlanHead, tuple[MoveWish, ...]]:
    """Return a plan, and the wishes of its own node. :raises CorruptNodeError:"""
    path = plan_path(name)
    value = znodes.load(path, data)
    try:
        head = PlanHead(
            name,
            _typed(value["by"], str),
            _typed(value["reason"], str),
            _typed(value["since_ms"], int),
            _typed(value["keep_replication_factor"], bool),
            Priority[_typed(value["priority"], str).upper()],
            _typed(value["now"], bool),
            tuple(_typed(broker_id, int) for broker_id in value.get("evacuates", ())),
        )
        _ = head.order
    except (KeyError, TypeError, ValueError) as exc:
        raise znodes.CorruptNodeError(f"{path}: {exc!r}") from None
    return head, _wishes(path, value)


def decode_wishes(name: str, number: int, data: bytes) -> tuple[MoveWish, ...]:
    """Return the wishes of a further node of a plan. :raises CorruptNodeError:"""
    path = plan_path(name, number)
    return _wishes(path, znodes.load(path, data))


def _wishes(path: str, value: dict[str, Any]) -> tuple[MoveWish, ...]:
    try:
        return tuple(
            MoveWish(
                _typed(topic, str),
                _typed(topic_id, str),
                _typed(partition, int),
                tuple(_typed(broker_id, int) for broker_id in target),
            )
            for topic, topic_id, partition, target in value["wishes"]
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise znodes.CorruptNodeError(f"{path}: wishes: {exc!r}") from None


def _typed(value: Any, kind: type[Any]) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
