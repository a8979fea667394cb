"""Moves of partitions are settled here, begun and cancelled, and what moves is listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Document, Failures, Row, fields_of
from oncelog_cli.documents.disks import disks_afterwards
from oncelog_cli.documents.partitions import chosen_partitions
from oncelog_cli.group_offsets import Chosen, Partition

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.reassignments import PartitionReassignment, ReassignmentOutcome


# ------------------------------------------------------------------------------ move


async def planned_moves(
    admin: Admin,
    chosen: Chosen,
    targets: Mapping[Partition, Sequence[int]] | Sequence[int],
    *,
    allow_replication_factor_change: bool = False,
) -> Answer:
    """Return what ``partitions move --dry-run`` prints: a row a partition.

    The ``result`` of a row is "would move", "nothing to do", or "refused" with an ``error``; what
    the controller refuses is a failure. Bytes and seconds that nobody knows are None. ``disks`` has
    a row a broker that would get or lose replicas.

    :param chosen: these partitions are to move.
    :param targets: the brokers of each partition, or of all alike; the preferred leader first.

    :raises ApiError: a topic cannot be described, or the cluster cannot move anything.
    :raises CommandError: there is no such partition.
    """
    from oncelog import TopicPartition

    found = await chosen_partitions(admin, chosen)
    wishes = {
        TopicPartition(*name): list(targets[name] if isinstance(targets, Mapping) else targets)
        for name in found
    }
    moving = {each.partition for each in await _reassignments(admin, chosen)}
    outcomes = await admin.alter_partition_reassignments(
        wishes,
        expected={TopicPartition(*name): item.replicas for name, item in found.items()},
        allow_replication_factor_change=allow_replication_factor_change,
        validate_only=True,
    )
    failures, rows = Failures(), []
    for outcome in outcomes:
        tp = outcome.partition
        replicas, target = list(found[tp].replicas), wishes[tp]
        row: Row = {
            **tp._asdict(),
            "replicas": replicas,
            "target": target,
            "adding": [broker for broker in target if broker not in replicas],
            "removing": [broker for broker in replicas if broker not in target],
            **fields_of(outcome, "bytes_to_copy seconds"),
        }
        if outcome.error is None and replicas == target and tp not in moving:
            rows.append({**row, "result": "nothing to do"})
        else:
            rows.append(_judged(row, outcome, "would move", failures))
    document: Document = {
        "partitions": rows,
        **move_totals(rows),
        "disks": await disks_afterwards(admin, rows),
        "plan_id": None,
        "dry_run": True,
    }
    return Answer(document, failures)


async def begun_moves(
    admin: Admin,
    planned: Sequence[Row],
    *,
    allow_replication_factor_change: bool = False,
    reason: str = "",
) -> Answer:
    """Have the controller keep what rows of :func:`planned_moves` say; return what is printed then.

    The ``result`` of rows that were to move is "planned", or "refused" with an ``error``: of a
    partition whose replicas are others by now, for example.
    """
    from oncelog import TopicPartition

    failures = Failures()
    by_name = {TopicPartition(row["topic"], row["partition"]): row for row in planned}
    wanted = {tp: row for tp, row in by_name.items() if row["result"] == "would move"}
    outcomes = await admin.alter_partition_reassignments(
        {tp: row["target"] for tp, row in wanted.items()},
        expected={tp: row["replicas"] for tp, row in wanted.items()},
        allow_replication_factor_change=allow_replication_factor_change,
        reason=reason,
    )
    for outcome in outcomes:
        tp = outcome.partition
        by_name[tp] = _judged(by_name[tp], outcome, "planned", failures)
    rows = list(by_name.values())
    plan_id = outcomes.plan_id or None
    return Answer(
        {"partitions": rows, **move_totals(rows), "plan_id": plan_id, "dry_run": False}, failures
    )


def _judged(row: Row, outcome: ReassignmentOutcome, done: str, failures: Failures) -> Row:
    if outcome.error is None:
        return {**row, "result": done}
    failures.fail(str(outcome.partition), outcome.error)
    return {**row, "result": "refused", "error": outcome.error.name}


def move_totals(rows: Iterable[Row]) -> Row:
    """Return how many copies the moves of rows make, bytes of all, and how long they take; None:
    not known. A broker makes its copies one after another, or as slowly, and all do at once."""
    moving = [row for row in rows if row["result"] in ("would move", "planned")]
    copying = [row for row in moving if row["adding"]]
    return {
        "copies": sum(len(row["adding"]) for row in copying),
        "bytes_to_copy": _sum(row["bytes_to_copy"] for row in copying),
        "seconds": _longest(copying),
    }


def _sum(numbers: Iterable[int | None]) -> int | None:
    held = list(numbers)
    return None if None in held else sum(number for number in held if number is not None)


def _longest(rows: Iterable[Row]) -> int | None:
    """Return how long the broker copies that has most to copy."""
    by_broker: dict[int, int] = {}
    for row in rows:
        if row["seconds"] is None:
            return None
        for broker_id in row["adding"]:
            by_broker[broker_id] = by_broker.get(broker_id, 0) + row["seconds"]
    return max(by_broker.values(), default=0)


# ------------------------------------------------------------------------------ cancel


async def planned_cancellation(admin: Admin, chosen: Chosen | None, *, now: bool = False) -> Answer:
    """Return what ``partitions cancel --dry-run`` prints: a row a partition.

    Its ``result`` is "would cancel", or "refused" with an ``error``: of a partition that does not
    move, for example. Partitions go back to the replicas in ``origin``.

    :param chosen: these partitions, and those that move of topics that are named without any;
        None: all that move.
    """
    from oncelog import TopicPartition

    known = {each.partition: each for each in await _reassignments(admin, chosen) if each.target}
    names = [tp for tp in known if chosen is None or tp in chosen]
    if chosen is not None:
        named = (TopicPartition(*name) for name in chosen.partitions)
        names += [tp for tp in named if tp not in known]
    failures, rows = Failures(), []
    if names:
        wishes = dict.fromkeys(names)
        for outcome in await admin.alter_partition_reassignments(
            wishes, now=now, validate_only=True
        ):
            move = known.get(outcome.partition)
            row: Row = {
                **outcome.partition._asdict(),
                "phase": None if move is None else move.phase,
                "origin": [] if move is None else list(move.origin or move.replicas),
                "target": [] if move is None else list(move.target),
            }
            rows.append(_judged(row, outcome, "would cancel", failures))
    return Answer({"partitions": rows, "now": now, "dry_run": True}, failures)


async def cancelled_moves(admin: Admin, planned: Sequence[Row], *, now: bool = False) -> Answer:
    """Cancel what rows of :func:`planned_cancellation` say; return what is printed then.

    The ``result`` of rows that were to be cancelled is "cancelled", or "refused" with an ``error``:
    of a move that is over by now, for example.

    :param now: the original replicas need not have caught up with those that were added.
    """
    from oncelog import TopicPartition

    failures = Failures()
    by_name = {TopicPartition(row["topic"], row["partition"]): row for row in planned}
    wanted = [tp for tp, row in by_name.items() if row["result"] == "would cancel"]
    for outcome in await admin.alter_partition_reassignments(dict.fromkeys(wanted), now=now):
        tp = outcome.partition
        by_name[tp] = _judged(by_name[tp], outcome, "cancelled", failures)
    return Answer({"partitions": list(by_name.values()), "now": now, "dry_run": False}, failures)


async def _reassignments(admin: Admin, chosen: Chosen | None) -> list[PartitionReassignment]:
    names = None
    if chosen is not None:
        names = dict.fromkeys([*chosen.topics, *(name for name, _ in chosen.partitions)])
    return list((await admin.list_partition_reassignments(names)).partitions)


# ------------------------------------------------------------------------------ status


async def listed_moves(admin: Admin, topics: Iterable[str] | None = None) -> Document:
    """Return the document of ``partitions status``: a row for each partition that moves.

    Bytes and times that nobody knows are None. ``percent`` counts bytes where they are known.

    :param topics: only partitions of these.
    """
    from oncelog.admin.reassignments import STALLED

    found = await admin.list_partition_reassignments(topics)
    rows = [move_row(each) for each in found.partitions]
    counted = [row for row in rows if row["bytes_total"] is not None]
    done = sum(row["bytes_done"] or 0 for row in counted)
    total = sum(row["bytes_total"] for row in counted)
    return {
        "partitions": rows,
        "plans": [fields_of(plan, "plan_id by reason since_ms queued") for plan in found.plans],
        "stalled": sum(row["phase"] == STALLED for row in rows),
        "bytes_total": total if counted else None,
        "bytes_done": done if counted else None,
        "percent": _percent(done, total) if counted else None,
    }


def move_row(move: PartitionReassignment) -> Row:
    """Return the row of ``partitions status`` of one partition.

    A move that is over has its replicas as ``target``, and no ``origin``: nobody knows it any more.

    :param move: the SDK's description of it.
    """
    from oncelog.admin.reassignments import LEAVING

    total, done, rate = move.bytes_total, move.bytes_done, move.bytes_per_s
    known = total is not None and done is not None
    is_over, reason = move.phase == LEAVING, move.reason
    if is_over and not reason:
        reason = f"to be deleted on {', '.join(f'broker {each}' for each in move.leaving)}"
    return {
        **move.partition._asdict(),
        "origin": [] if is_over else list(move.origin),
        "target": list(move.replicas if is_over else move.target),
        "phase": move.phase,
        "percent": _percent(done or 0, total or 0) if known else None,
        **fields_of(move, "bytes_done bytes_total bytes_per_s"),
        "seconds_left": -(-max((total or 0) - (done or 0), 0) // rate) if known and rate else None,
        "reason": reason,
        "replicas": list(move.replicas),
        "leaving": list(move.leaving),
        **fields_of(move, "since_ms plan_id"),
    }


def _percent(done: int, total: int) -> int:
    """Return whole percents; what is not whole is not 100."""
    return 100 if done >= total else 100 * done // total
