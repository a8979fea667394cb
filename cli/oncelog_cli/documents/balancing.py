"""Plans are asked for here, and carried out as moves; the cluster is seen through its goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Document, Row, fields_of
from oncelog_cli.documents.disks import disks_afterwards
from oncelog_cli.documents.moves import begun_moves, move_totals
from oncelog_cli.documents.names import topics_named

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.balancing import PlannedBalance


async def planned_balance(
    admin: Admin,
    purpose: str,
    *,
    topics: Iterable[str] | None = None,
    replication_factor: int = 0,
    goals: Iterable[str] | None = None,
    max_moves: int | None = None,
    max_bytes: int | None = None,
    from_brokers: Sequence[int] = (),
) -> Document:
    """Return what ``balance plan`` prints: a row a partition that would move.

    The rows are such as ``begun_moves`` takes. Bytes that nobody knows are None. ``disks`` has a
    row a broker that would get or lose replicas.

    :param purpose: one of the SDK's ``PURPOSES``; the others are those of ``Admin.balance``.
    :raises ApiError: the controller makes no such plan.
    """
    plan = await admin.balance(
        purpose,
        topics=topics,
        replication_factor=replication_factor,
        goals=goals,
        max_moves=max_moves,
        max_bytes=max_bytes,
        from_brokers=from_brokers,
    )
    rows = [
        {
            **move.partition._asdict(),
            "replicas": list(move.replicas),
            "target": list(move.target),
            "adding": list(move.adding),
            "removing": list(move.removing),
            "bytes_to_copy": move.bytes_to_copy,
            "seconds": move.seconds,
            "goal": move.goal,
            "result": "would move",
        }
        for move in plan.moves
    ]
    return {
        "purpose": purpose,
        "partitions": rows,
        **move_totals(rows),
        "disks": await disks_afterwards(admin, rows),
        "goals": _goals(plan),
        "held_up": _held_up(plan),
        "plan_id": None,
        "dry_run": True,
    }


async def planned_factor(
    admin: Admin, patterns: Sequence[str], replication_factor: int, *, regex: bool = False
) -> Document:
    """Return what gives topics so many replicas, as :func:`planned_balance` does, with their names
    in ``topics``.

    :raises ApiError: there can be no such number of replicas.
    :raises CommandError: no topic is meant.
    """
    from oncelog.admin.balancing import REPLICATION_FACTOR

    names = await topics_named(admin, patterns, regex=regex)
    planned = await planned_balance(
        admin, REPLICATION_FACTOR, topics=names, replication_factor=replication_factor
    )
    return {**planned, "topics": list(names)}


async def planned_departure(admin: Admin, broker_id: int, patterns: Sequence[str]) -> Document:
    """Return what moves replicas off a broker, as :func:`planned_balance` does.

    :param patterns: of topics whose names match one of these; none: of all topics.
    :raises ApiError: the controller makes no such plan.
    :raises CommandError: no topic is meant.
    """
    from oncelog.admin.balancing import EVACUATE

    names = await topics_named(admin, patterns, regex=True) if patterns else None
    return await planned_balance(admin, EVACUATE, topics=names, from_brokers=[broker_id])


async def disks_of_departure(admin: Admin, broker_id: int) -> list[Row]:
    """Return how full disks would be when everything has left a broker: ``disks`` of
    :func:`planned_departure`; there are none when the controller makes no such plan now."""
    from oncelog import ApiError

    try:
        rows: list[Row] = (await planned_departure(admin, broker_id, []))["disks"]
    except ApiError:
        return []
    return rows


async def begun_balance(admin: Admin, planned: Document, *, reason: str) -> Answer:
    """Have the controller keep what :func:`planned_balance` says; return what is printed then.

    What has other replicas by now is refused. The number of replicas may change.
    """
    rows: Sequence[Row] = planned["partitions"]
    begun = await begun_moves(admin, rows, allow_replication_factor_change=True, reason=reason)
    return Answer({**planned, **begun.document}, begun.failures)


async def seen_balance(admin: Admin) -> Document:
    """Return the document of ``balance status``: how far the cluster is from each goal, and what
    moves at the moment.

    :raises ApiError: the controller does not tell.
    """
    from oncelog.admin.reassignments import QUEUED, STALLED

    plan = await admin.balance(max_moves=0)
    known = await admin.list_partition_reassignments()
    open_moves = [each for each in known.partitions if each.target]
    return {
        "goals": [fields_of(each, "goal before") for each in plan.goals],
        "held_up": _held_up(plan),
        "plans": len(known.plans),
        "moving": len(open_moves),
        "queued": sum(each.phase == QUEUED for each in open_moves),
        "stalled": sum(each.phase == STALLED for each in open_moves),
    }


def _goals(plan: PlannedBalance) -> list[Row]:
    return [fields_of(each, "goal before after") for each in plan.goals]


def _held_up(plan: PlannedBalance) -> list[Row]:
    return [{**each.partition._asdict(), **fields_of(each, "goal reason")} for each in plan.held_up]
