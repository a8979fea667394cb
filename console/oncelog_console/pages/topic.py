"""One topic is shown: partitions with the ends of every replica, settings, and who reads it.

The document's ``end_offset`` is the last stable offset: readers of what is committed come so far.
High watermarks are asked for beside it, of the partitions that a page shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oncelog import TopicPartition
from oncelog_cli.documents.answer import Failure
from oncelog_cli.documents.groups import described_groups
from oncelog_cli.documents.partitions import partition_row
from oncelog_cli.documents.topics import described_topics
from oncelog_console import commands
from oncelog_console.listing import part_of
from oncelog_console.page import (
    ANSWER_MS,
    BadRequestError,
    NotFoundError,
    Page,
    PageRoute,
    Visit,
)
from oncelog_console.snapshot import Snapshot

PAGE_ROWS = 200
GROUPS_MAX = 200
"""So many groups are asked whether they read a topic."""
TABS = ("partitions", "configs", "consumers")


@dataclass(frozen=True, slots=True)
class ReplicaEnd:
    """A replica of a partition stands on the axis of all of them."""

    broker_id: int
    in_isr: bool
    leads: bool
    end: int | None
    """Its log end offset; None: its broker did not say."""
    behind: int | None
    """So many records fewer than the one that has most."""
    percent: int
    """Its end stands here on the axis, in steps of 2."""


@dataclass(frozen=True, slots=True)
class PartitionDetail:
    """A partition has a row of ``topics describe``, and replicas with their ends."""

    row: Mapping[str, Any]
    states: tuple[str, ...]
    """This is wrong, as ``partitions list`` names it."""
    size_bytes: int | None
    """The leader's replica has this size."""
    replicas: tuple[ReplicaEnd, ...]
    axis: tuple[int, int]
    """The axis of its replicas goes from the first start to the largest end."""
    high_watermark: int | None = None
    """So far all in-sync replicas have it; None: its leader did not say."""

    @property
    def stable_percent(self) -> int | None:
        """Return where the last stable offset stands on the axis; None: it is not known."""
        return self._on_axis(self.row["end_offset"])

    @property
    def high_percent(self) -> int | None:
        """Return where the high watermark stands on the axis; None: it is not known."""
        return self._on_axis(self.high_watermark)

    def _on_axis(self, offset: int | None) -> int | None:
        start, largest = self.axis
        return None if offset is None else max(0, min(percent(start, offset, largest), 100))

    @property
    def worst(self) -> tuple[bool, int, int]:
        """Return what the worst come first by: no leader, fewest in sync, most behind."""
        behind = max((each.behind or 0 for each in self.replicas), default=0)
        missing = len(self.row["replicas"]) - len(self.row["isr"])
        return (self.row["leader"] >= 0, -missing, -behind)


@dataclass(frozen=True, slots=True)
class Readers:
    """These groups have committed offsets of a topic."""

    rows: tuple[Mapping[str, Any], ...]
    failures: tuple[Failure, ...]
    not_asked: int
    """So many more groups exist, and were not asked."""


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """The view holds what the page shows."""

    topic: str
    topic_id: str
    internal: bool
    tab: str
    partitions: tuple[PartitionDetail, ...]
    partition_count: int
    page: int
    pages: int
    configs: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    readers: Readers | None = None
    """None: they were not asked for."""
    tabs: tuple[str, ...] = TABS


def partition_views(seen: Snapshot, described: Mapping[str, Any]) -> list[PartitionDetail]:
    """Return the partitions of a topic, with what log directories say of their replicas.

    :param described: the topic's row of ``topics describe``.
    """
    name = described["topic"]
    held = {
        (item.broker_id, replica.partition.partition): replica
        for item in seen.log_dirs.value or ()
        for replica in item.replicas
        if replica.partition.topic == name
    }
    topic, min_isr = seen.topic(name), seen.min_isr.value or {}
    states: dict[int, list[str]] = {}
    if topic is not None:
        states = {
            item.partition: partition_row(topic, item, min_isr)["states"]
            for item in topic.partitions
        }
    views = []
    for row in described["partitions"]:
        number = row["partition"]
        replicas = {broker: held.get((broker, number)) for broker in row["replicas"]}
        known = [each for each in replicas.values() if each is not None]
        largest = max((each.log_end_offset for each in known), default=0)
        start = min((each.log_start_offset for each in known), default=0)
        leader = replicas.get(row["leader"])
        ends = tuple(
            ReplicaEnd(
                broker,
                broker in row["isr"],
                broker == row["leader"],
                None if each is None else each.log_end_offset,
                None if each is None else largest - each.log_end_offset,
                0 if each is None else percent(start, each.log_end_offset, largest),
            )
            for broker, each in replicas.items()
        )
        size = None if leader is None else leader.size_bytes
        views.append(
            PartitionDetail(row, tuple(states.get(number, ())), size, ends, (start, largest))
        )
    return views


def percent(start: int, end: int, largest: int) -> int:
    """Return where an offset stands on its axis, in steps of 2."""
    return 100 if largest <= start else 2 * (50 * (end - start) // (largest - start))


async def show(visit: Visit) -> Page:
    """Show one topic."""
    name = visit.named("topic")
    tab = visit.query.get("tab", "partitions")
    if tab not in TABS:
        raise BadRequestError(f"tab={tab!r}: there are {', '.join(TABS)}")
    every = tab == "configs"
    answer = await described_topics(visit.admin, [name], every_setting=every)
    if not answer.document["topics"]:
        error = answer.failures[0].error
        raise error if isinstance(error, Exception) else NotFoundError(answer.failures[0].message)
    (row,) = answer.document["topics"]
    views = sorted(partition_views(visit.seen, row), key=lambda view: view.worst)
    part = part_of(views, visit.number("page", 1, least=1, most=1_000_000), PAGE_ROWS)
    shown = part.items
    if tab == "partitions" and not visit.wants_document:
        high = await high_watermarks(visit, name, shown)
        shown = tuple(
            replace(each, high_watermark=high.get(each.row["partition"])) for each in shown
        )
    view = TopicDetail(
        name,
        row["topic_id"],
        row["internal"],
        tab,
        shown,
        len(views),
        part.number,
        part.pages,
        tuple(row["configs"]),
        tuple(answer.notes),
        await readers_of(visit, name) if tab == "consumers" else None,
    )
    words = commands.command("topics describe", name, configs=every)
    return Page(name, "topic.html", view, words, answer, asked_ms=visit.seen.log_dirs.asked_ms)


async def high_watermarks(
    visit: Visit, name: str, shown: Sequence[PartitionDetail]
) -> dict[int, int | None]:
    """Ask the leaders of these partitions for their high watermarks; None: one did not say."""
    led = [TopicPartition(name, each.row["partition"]) for each in shown if each.row["leader"] >= 0]
    found = await visit.admin.list_offsets(led, "latest", timeout_ms=ANSWER_MS) if led else ()
    return {each.partition.partition: each.offset for each in found}


async def readers_of(visit: Visit, name: str) -> Readers:
    """Ask which groups have committed offsets of a topic, and how far behind they are."""
    names = [row["group"] for row in visit.seen.group_rows]
    asked = names[:GROUPS_MAX]
    answer = await described_groups(visit.admin, asked) if asked else None
    rows = [] if answer is None else answer.document["groups"]
    found = [
        {"group": row["group"], "state": row["state"], "lag": topic["lag"]}
        for row in rows
        for topic in row["topics"]
        if topic["topic"] == name
    ]
    failures = () if answer is None else answer.failures
    return Readers(tuple(found), tuple(failures), len(names) - len(asked))


PAGES = (PageRoute("/topics/{topic}", show),)
