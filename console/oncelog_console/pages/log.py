"""The log of one partition is shown as it lies on a broker's disk, and how others differ.

It is asked through the visitor's admin client, once a view: a log is read from a disk for it, so
this page does not refresh by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog import TopicPartition
from oncelog.errors import NotLeaderOrFollowerError, OncelogError
from oncelog_cli.documents.answer import Answer, Document, Failure
from oncelog_cli.documents.logs import described_log, segment_file, steps
from oncelog_console.log_pictures import axis_picture, batches_picture, is_aborted, letter_of
from oncelog_console.page import BadRequestError, NotFoundError, Page, PageRoute, Visit
from oncelog_console.svg import Picture

BATCHES = 200
"""A page shows so many batches."""
PAGES_MAX = 4
"""Segments, epochs and aborted ranges of so many answers are shown: 2,000 of each."""
ROWS_MAX = 200
"""A table has so many rows at most, the newest."""
TIMEOUT_MS = 10_000
OTHERS_TIMEOUT_MS = 3_000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A replica stands beside the others."""

    broker_id: int
    document: Row | None
    """None: it did not tell."""
    error: str = ""
    epochs_differ: bool = False
    """Whether its leader epochs begin elsewhere than those of the replica that is shown."""
    at_offset: str = ""
    """The offset that is looked for lies here in it."""


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch has the letter of its box."""

    row: Row
    letter: str
    aborted: bool


@dataclass(frozen=True, slots=True)
class LogView:
    """The view holds what the page shows."""

    topic: str
    partition: int
    document: Row
    offset: int | None
    """It is looked for."""
    steps: tuple[str, ...]
    """So it is found; () where it is not."""
    axis: Picture
    batches: tuple[BatchRow, ...]
    boxes: Picture | None
    """None: there are no batches."""
    shown_segment: int | None
    segments: tuple[Row, ...]
    aborted: tuple[Row, ...]
    replicas: tuple[ReplicaRow, ...]
    left_out: int
    """So many segments are not in the table."""
    asked_broker: int | None
    """The address names it; None: the leader, whoever that is."""


def log_view(
    document: Document,
    others: Sequence[tuple[int, Answer | Failure]],
    offset: int | None = None,
    asked_broker: int | None = None,
) -> LogView:
    """Return the view of a document of ``dump-log --remote``.

    :param others: what the other replicas have told, or why they have not, by broker.
    :param offset: the offset that is looked for.
    """
    batches, found = document["batches"], document["found"]
    shown = batches[0]["segment"] if batches else None
    segments = document["segments"]
    told: dict[int, Answer | Failure] = {document["broker_id"]: Answer(document), **dict(others)}
    return LogView(
        document["topic"],
        document["partition"],
        document,
        offset,
        () if found is None else tuple(steps(found)),
        axis_picture(document, shown),
        tuple(
            BatchRow(row, letter_of(row), is_aborted(row, document["aborted"])) for row in batches
        ),
        batches_picture(document) if batches else None,
        shown,
        tuple({**row, "file": segment_file(row["base_offset"])} for row in segments[-ROWS_MAX:]),
        tuple(document["aborted"][-ROWS_MAX:]),
        tuple(_replica(broker, told[broker], document, offset) for broker in sorted(told)),
        max(0, len(segments) - ROWS_MAX),
        asked_broker,
    )


def _replica(broker_id: int, told: Answer | Failure, shown: Row, offset: int | None) -> ReplicaRow:
    if isinstance(told, Failure):
        return ReplicaRow(broker_id, None, told.message)
    document = told.document
    return ReplicaRow(
        broker_id,
        document,
        epochs_differ=epochs_differ(shown["epochs"], document["epochs"]),
        at_offset="" if offset is None else _place_of(document, offset),
    )


def epochs_differ(one: Sequence[Row], other: Sequence[Row]) -> bool:
    """Return whether two logs say of an epoch that it begins at different offsets. An epoch that
    only one has, and where the older part of a log begins, tell nothing."""
    begins = {row["leader_epoch"]: row["start_offset"] for row in one[1:]}
    return any(
        begins.get(row["leader_epoch"], row["start_offset"]) != row["start_offset"]
        for row in other[1:]
    )


def _place_of(document: Row, offset: int) -> str:
    found = document["found"]
    if found is None:
        return "not there"
    (batch,) = [b for b in document["batches"] if b["base_offset"] == found["batch_base_offset"]]
    return (
        f"{batch['base_offset']:,} + {found['offset_in_batch']}, epoch {batch['leader_epoch']},"
        f" byte {batch['position']:,} of {found['file']}"
    )


async def show(visit: Visit) -> Page:
    """Show how one replica of a partition lies on disk."""
    partition = partition_of(visit)
    broker = _given(visit, "broker", 2**31 - 1)
    offset, begin = _given(visit, "offset"), _given(visit, "from")
    if offset is not None and begin is not None:
        raise BadRequestError("offset= says where batches begin: give it or from=")
    answer = await asked(visit, partition, broker, offset=offset, begin=begin)
    if offset is None and begin is None:
        begin = newest_segment(answer.document)
        if begin is not None:
            answer = await asked(visit, partition, broker, begin=begin)
    others = await asked_others(visit, partition, answer.document["broker_id"], offset)
    view = log_view(answer.document, others, offset, broker)
    name = f"{partition.topic}-{partition.partition}"
    command = ["dump-log", "--remote", name]
    command += [] if broker is None else ["--broker", str(broker)]
    command += [] if offset is None else ["--offset", str(offset)]
    command += [] if begin is None else ["--from", str(begin)]
    command += ["--batches", str(BATCHES)]
    return Page(f"Log of {name}", "log.html", view, tuple(command), answer, asked_ms=visit.now_ms)


def partition_of(visit: Visit) -> TopicPartition:
    """Return the partition that an address names.

    :raises NotFoundError: it is no number.
    """
    text = visit.named("partition")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotFoundError(f"partition {text!r} is no number")
    return TopicPartition(visit.named("topic"), int(text))


def _given(visit: Visit, name: str, most: int = 2**63 - 1) -> int | None:
    value = visit.number(name, -1, most=most)
    return None if value < 0 else value


def newest_segment(document: Row) -> int | None:
    """Return the base offset of the newest segment that holds something; None: none does."""
    held = [row["base_offset"] for row in document["segments"] if row["size_bytes"]]
    return held[-1] if held else None


async def asked(
    visit: Visit,
    partition: TopicPartition,
    broker: int | None,
    *,
    offset: int | None = None,
    begin: int | None = None,
) -> Answer:
    """Ask one broker, or the leader.

    :raises NotFoundError: the broker has no replica of it.
    """
    try:
        return await described_log(
            visit.admin,
            partition,
            broker,
            offset=offset,
            batches_from=begin,
            batches=0 if offset is None and begin is None else BATCHES,
            pages_max=PAGES_MAX,
            timeout_ms=TIMEOUT_MS,
        )
    except NotLeaderOrFollowerError as error:
        raise NotFoundError(f"broker {broker} has no replica: {error}") from error


async def asked_others(
    visit: Visit, partition: TopicPartition, shown: int, offset: int | None
) -> list[tuple[int, Answer | Failure]]:
    """Ask the other brokers that have a replica, all at once; one that fails is a failure."""

    async def one(broker: int) -> tuple[int, Answer | Failure]:
        try:
            answer = await described_log(
                visit.admin,
                partition,
                broker,
                offset=offset,
                pages_max=PAGES_MAX,
                timeout_ms=OTHERS_TIMEOUT_MS,
            )
        except (OncelogError, OSError) as error:
            return broker, Failure(f"broker {broker}", error)
        return broker, answer

    topic = visit.seen.topic(partition.topic)
    replicas = () if topic is None else topic.partitions
    brokers = [
        broker
        for item in replicas
        if item.partition == partition.partition
        for broker in item.replicas
        if broker != shown
    ]
    return list(await asyncio.gather(*(one(broker) for broker in brokers)))


PAGES = (PageRoute("/topics/{topic}/{partition}/log", show),)
