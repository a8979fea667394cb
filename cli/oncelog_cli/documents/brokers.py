"""Brokers are listed with their service, taken out of it, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Document, Failures, Row, fields_of
from oncelog_cli.documents.cluster import cluster_document

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.broker_states import HeldBack
    from oncelog_cli.group_offsets import Partition


async def listed_brokers(admin: Admin) -> Answer:
    """Return the document of ``brokers list``: a row a live broker, with what it leads and holds.

    Topics that cannot be described are failures, and are not counted.

    :raises OncelogError: no broker answers.
    """
    document, failures = cluster_document(await admin.describe_cluster()), Failures()
    topics = failures.sound(await admin.describe_topics(None), lambda topic: topic.topic)
    leaders, replicas = dict[int, int](), dict[int, int]()
    for item in (item for topic in topics for item in topic.partitions):
        leaders[item.leader] = leaders.get(item.leader, 0) + 1
        for broker_id in item.replicas:
            replicas[broker_id] = replicas.get(broker_id, 0) + 1
    rows = [
        {
            **{key: row[key] for key in ("broker_id", "state", "is_controller", "rack")},
            "leaders": leaders.get(row["broker_id"], 0),
            "replicas": replicas.get(row["broker_id"], 0),
        }
        for row in document["brokers"]
    ]
    return Answer({"brokers": rows}, failures)


async def altered_broker(
    admin: Admin,
    broker_id: int,
    wanted: str,
    *,
    accept_loss: Sequence[Partition] = (),
    dry_run: bool = False,
) -> Document:
    """Take a broker out of service or back; return what ``brokers drain`` and its like print.

    Lists name the first partitions, and counts are of all. ``since_ms`` is None while the broker is
    active.

    :param wanted: "active", "draining" or "decommissioning".
    :param accept_loss: the records of these partitions may be lost.
    :param dry_run: change nothing, and tell what would have to happen.
    :raises ApiError: the cluster refuses it.
    """
    from oncelog import TopicPartition

    found = await admin.alter_broker_states(
        broker_id,
        wanted,
        accept_loss=[TopicPartition(*each) for each in accept_loss],
        validate_only=dry_run,
    )
    return {
        "broker_id": broker_id,
        "state": found.state,
        "since_ms": found.since_ms or None,
        "by": found.by or None,
        **fields_of(found, "leaders_left_count replicas_left_count lost_with_it_count"),
        "leaders_left": _held(found.leaders_left),
        "replicas_left": _held(found.replicas_left),
        "lost_with_it": _held(found.lost_with_it),
        "dry_run": dry_run,
    }


def _held(partitions: Iterable[HeldBack]) -> list[Row]:
    return [{**each.partition._asdict(), **fields_of(each, "reason passes")} for each in partitions]


def is_stuck(document: Document) -> bool:
    """Return whether nothing that is left to do gets done by itself: somebody has to act."""
    left: list[Row] = document["leaders_left"] + document["replicas_left"]
    return bool(left) and not any(row["passes"] for row in left)


def is_over(document: Document) -> bool:
    """Return whether nothing is left to do."""
    from oncelog.admin.broker_states import DECOMMISSIONING

    if document["state"] == DECOMMISSIONING:
        return False
    return not document["leaders_left_count"] and not document["replicas_left_count"]
