"""Partitions are listed with what is wrong with them, and leaders are elected."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Document, Failures, Row, fields_of
from oncelog_cli.documents.cluster import min_insync_replicas
from oncelog_cli.documents.known_moves import known_moves
from oncelog_cli.documents.names import topics_named
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen, Partition
from oncelog_cli.health import NOTHING_MOVES, needed_isr
from oncelog_cli.open_moves import KnownMoves

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import PartitionDescription, TopicDescription

NOT_NEEDED = "ELECTION_NOT_NEEDED"


async def listed_partitions(
    admin: Admin,
    topics: Sequence[str] | None = None,
    *,
    regex: bool = False,
    internal: bool = False,
    states: Collection[str] = (),
    broker: int | None = None,
    leader: int | None = None,
) -> Answer:
    """Return the document of ``partitions list``: a row a partition; topics that fail are failures.

    While a partition moves, its original replicas count; all do when nobody says what moves.

    :param topics: only theirs; else all, with the cluster's own ones when ``internal``.
    :param states: only partitions in one of them: see :func:`states_of`.
    :param broker: only partitions with a replica there.
    :raises CommandError: no topic is meant.
    """
    failures = Failures()
    found, min_isr = await topics_and_min_isr(admin, topics, failures, regex=regex)
    moves = await known_moves(admin)
    rows = [
        row
        for topic in found
        if internal or topics or not topic.internal
        for row in (partition_row(topic, item, min_isr, moves) for item in topic.partitions)
        if (not states or not set(states).isdisjoint(row["states"]))
        and (broker is None or broker in row["replicas"])
        and (leader is None or leader == row["leader"])
    ]
    return Answer({"partitions": rows}, failures)


async def topics_and_min_isr(
    admin: Admin, patterns: Sequence[str] | None, failures: Failures, *, regex: bool
) -> tuple[list[TopicDescription], dict[str, int]]:
    """Return the topics that are meant and can be described, and min.insync.replicas of each.

    :raises CommandError: no topic is meant.
    """
    names = await topics_named(admin, patterns, regex=regex) if patterns else None
    sound = failures.sound(await admin.describe_topics(names), lambda topic: topic.topic)
    return sound, await min_insync_replicas(admin, [topic.topic for topic in sound])


def partition_row(
    topic: TopicDescription,
    item: PartitionDescription,
    min_isr: Mapping[str, int],
    moves: KnownMoves = NOTHING_MOVES,
) -> Row:
    """Return the row of ``partitions list`` of one partition.

    :param min_isr: ``min_insync_replicas`` by topic.
    """
    return {
        "topic": topic.topic,
        **fields_of(item, "partition leader leader_epoch replicas isr"),
        "min_isr": min_isr.get(topic.topic, 1),
        **fields_of(item, "elr last_known_elr offline_replicas"),
        "states": states_of(topic.topic, item, min_isr, moves),
    }


def states_of(
    topic: str,
    item: PartitionDescription,
    min_isr: Mapping[str, int],
    moves: KnownMoves = NOTHING_MOVES,
) -> list[str]:
    """Return the states of a partition, the worst first; the list is empty if all is well.

    :param min_isr: ``min_insync_replicas`` by topic.
    """
    needed = needed_isr(min_isr, topic, item, moves)
    states = {
        "unavailable": item.leader < 0,
        "under-min-isr": len(item.isr) < needed,
        "at-min-isr": len(item.isr) == needed < len(moves.originals(topic, item)),
        "under-replicated": moves.lacks_replicas(topic, item),
        "not-preferred": item.leader >= 0 and item.leader != item.replicas[0],
    }
    return [state for state, holds in states.items() if holds]


async def chosen_partitions(
    admin: Admin, chosen: Chosen | None
) -> dict[Partition, PartitionDescription]:
    """Return the partitions that are chosen, by topic and number; None chooses all.

    :raises ApiError: a topic cannot be described; AdminError: several cannot.
    :raises CommandError: a partition that was chosen does not exist.
    """
    names = None
    if chosen is not None:
        names = dict.fromkeys([*chosen.topics, *(name for name, _ in chosen.partitions)])
    found = {
        (topic.topic, item.partition): item
        for topic in (await admin.describe_topics(names)).raise_for_errors()
        for item in topic.partitions
        if chosen is None or (topic.topic, item.partition) in chosen
    }
    for name, number in () if chosen is None else chosen.partitions:
        if (name, number) not in found:
            raise CommandError(f"topic {name!r} has no partition {number}")
    return found


# ------------------------------------------------------------------------------ elections


async def needed_elections(admin: Admin, chosen: Chosen | None, *, unclean: bool) -> Document:
    """Return what ``elect-leaders --dry-run`` prints: a row a partition.

    Its ``result`` is "needed" or "not needed": by an ``unclean`` election where nobody leads, by
    one of the preferred leader where another one leads.

    :param chosen: these partitions; None: those that need an election.

    :raises ApiError: a topic cannot be described.
    :raises CommandError: a partition that was chosen does not exist.
    """
    rows = []
    for (topic, _), item in (await chosen_partitions(admin, chosen)).items():
        preferred = item.replicas[0] if item.replicas else -1
        wanted = item.leader < 0 if unclean else item.leader != preferred
        if wanted or chosen is not None:
            row = {"topic": topic, **fields_of(item, "partition leader"), "preferred": preferred}
            rows.append({**row, "result": "needed" if wanted else "not needed"})
    return {"dry_run": True, "unclean": unclean, "partitions": rows}


async def elected_leaders(admin: Admin, planned: Sequence[Row], *, unclean: bool) -> Answer:
    """Hold the elections that rows of :func:`needed_elections` need; return what is printed then.

    Rows have the leaders that there are now. The ``result`` of those that needed an election is
    "elected", "not needed", or "failed" with an ``error``.
    """
    from oncelog import TopicPartition

    failures = Failures()
    by_name = {TopicPartition(row["topic"], row["partition"]): row for row in planned}
    needed = [tp for tp, row in by_name.items() if row["result"] == "needed"]
    for outcome in await admin.elect_leaders(needed, unclean=unclean):
        tp, error = TopicPartition(*outcome.partition), outcome.error
        result: Row = {"result": "elected"}
        if error is not None and error.name == NOT_NEEDED:
            result = {"result": "not needed"}
        elif error is not None:
            result = {"result": "failed", "error": error.name}
            failures.fail(str(tp), error)
        by_name[tp] = {**by_name[tp], **result}
    for item in await admin.describe_topics(dict.fromkeys(tp.topic for tp in needed)):
        for part in item.partitions:
            tp = TopicPartition(item.topic, part.partition)
            if tp in needed:
                by_name[tp] = {**by_name[tp], "leader": part.leader}
    rows = list(by_name.values())
    return Answer({"dry_run": False, "unclean": unclean, "partitions": rows}, failures)
