"""Moves between the directories of one broker are settled here, begun, and listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Document, Failures, Row
from oncelog_cli.documents.known_moves import ASKED_MS
from oncelog_cli.documents.moves import listed_moves
from oncelog_cli.documents.partitions import chosen_partitions
from oncelog_cli.group_offsets import Chosen

if TYPE_CHECKING:
    from oncelog import Admin


async def planned_dir_moves(admin: Admin, chosen: Chosen, broker: int, log_dir: str) -> Answer:
    """Return what ``partitions move --log-dir --dry-run`` prints: a row a partition.

    The ``result`` of a row is "would move", "nothing to do", or "refused" with an ``error``, which
    is a failure as well.

    :param broker: its replicas are to move
    :param log_dir: to this directory, named as in the broker's settings.

    :raises ApiError: a topic cannot be described, or the broker does not answer.
    :raises CommandError: there is no such partition.
    """
    from oncelog import TopicPartition

    found = [TopicPartition(*name) for name in await chosen_partitions(admin, chosen)]
    places = {
        replica.partition: each.path
        for each in await admin.describe_log_dirs([broker], topics={tp.topic for tp in found})
        for replica in each.replicas
    }
    rows: list[Row] = [
        {
            **tp._asdict(),
            "broker": broker,
            "log_dir": places.get(tp),
            "target": log_dir,
            "bytes_to_copy": None,
            "result": "nothing to do" if places.get(tp) == log_dir else "would move",
        }
        for tp in found
    ]
    return await _asked(admin, rows, "would move", validate_only=True)


async def begun_dir_moves(admin: Admin, planned: Sequence[Row]) -> Answer:
    """Have the broker begin what rows of :func:`planned_dir_moves` say; return what is printed
    then. The ``result`` of rows that were to move is "moving", or "refused"."""
    return await _asked(admin, planned, "moving", validate_only=False)


async def _asked(admin: Admin, planned: Sequence[Row], done: str, *, validate_only: bool) -> Answer:
    from oncelog import TopicPartition

    rows = {TopicPartition(row["topic"], row["partition"]): row for row in planned}
    wanted = {tp: row for tp, row in rows.items() if row["result"] == "would move"}
    failures = Failures()
    outcomes = []
    if wanted:
        broker = next(iter(wanted.values()))["broker"]
        places = {tp: row["target"] for tp, row in wanted.items()}
        outcomes = list(
            await admin.alter_replica_log_dirs(broker, places, validate_only=validate_only)
        )
    for outcome in outcomes:
        row = {**rows[outcome.partition], "bytes_to_copy": outcome.bytes_to_copy}
        if outcome.error is None:
            rows[outcome.partition] = {**row, "result": done}
        else:
            failures.fail(str(outcome.partition), outcome.error)
            rows[outcome.partition] = {**row, "result": "refused", "error": outcome.error.name}
    return Answer({"partitions": list(rows.values()), "dry_run": validate_only}, failures)


async def listed_everywhere(admin: Admin, topics: Sequence[str] | None = None) -> Document:
    """Return what ``partitions status`` prints: what moves between brokers, and what between the
    directories of one."""
    moves = await listed_moves(admin, topics)
    return {**moves, "directories": await listed_dir_moves(admin, topics)}


async def listed_dir_moves(admin: Admin, topics: Sequence[str] | None = None) -> list[Row]:
    """Return a row a replica that moves to another directory of its broker. A broker that does not
    answer soon has none: ``partitions status`` names such brokers elsewhere.

    :param topics: only replicas of these.
    """
    described = await admin.describe_log_dirs(topics=topics or None, timeout_ms=ASKED_MS)
    sizes = {
        (each.broker_id, replica.partition): (each.path, replica.size_bytes)
        for each in described
        for replica in each.replicas
    }
    rows: list[Row] = []
    for each in described:
        for future in each.future:
            present, size = sizes.get((each.broker_id, future.partition), (None, None))
            rows.append(
                {
                    **future.partition._asdict(),
                    "broker": each.broker_id,
                    "log_dir": present,
                    "target": each.path,
                    "bytes_done": future.size_bytes,
                    "bytes_total": size,
                    "offset_lag": future.offset_lag,
                }
            )
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["broker"]))
