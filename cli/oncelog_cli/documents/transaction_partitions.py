"""Leaders are asked how transactions stand in their partitions: open or ended, and who waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Failures, Row
from oncelog_cli.documents.held_back import (
    HeldBackRecords,
    KnownGroups,
    held_back,
    known_groups,
    waiting_groups,
)
from oncelog_cli.documents.marker_offsets import EndedProducer, marker_offsets
from oncelog_cli.documents.producers import described_producers
from oncelog_cli.group_offsets import Chosen

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition

PARTITIONS_MAX = 1_000
"""Of so many partitions leaders are asked; of the others nothing is known."""
SHARED_MARKER_EPOCH = 1
"""A writer of a shared transaction has a producer id of its own, at epoch 0: it has one end."""
LEADERS_MS = 5_000
"""A leader that has not answered in this time says nothing."""
NOBODY = KnownGroups(())


async def with_partitions(
    admin: Admin,
    answer: Answer,
    groups: KnownGroups | None = None,
    *,
    timeout_ms: int = LEADERS_MS,
) -> Answer:
    """Return the document of ``transactions describe --partitions``.

    Each transaction has ``in_partitions``, a row a partition and writer. What its leader did not
    say is None, and a failure.

    :param answer: the document of ``transactions describe``.
    :param groups: groups that are known to whoever asks; None: all are asked.
    :param timeout_ms: leaders have so long to answer.
    """
    rows = answer.document["transactions"]
    asked = sorted({tp for row in rows for tp in partitions_of(row)})[:PARTITIONS_MAX]
    failures = Failures(answer.failures)
    producers: Sequence[Row] = ()
    silent: set[str] = set()
    held: dict[TopicPartition, HeldBackRecords] = {}
    if asked:
        where = Chosen((), tuple(asked))
        described = await described_producers(admin, where, timeout_ms=timeout_ms)
        producers = described.document["producers"]
        failures += described.failures
        silent = {each.item for each in described.failures}
        held = await held_back(admin, asked, timeout_ms=timeout_ms)
    if groups is None:
        groups = await known_groups(admin) if any(e.records for e in held.values()) else NOBODY
    failures += groups.failures
    known = {tp for tp in asked if str(tp) not in silent}
    waits = waiting_groups(groups.rows, held)
    ended = [each for row in rows for each in ended_in(row, producers)]
    markers = await marker_offsets(admin, ended, timeout_ms=timeout_ms)
    offsets = {(each.partition, each.producer_id): at for each, at in markers.items()}
    found = [
        {**row, "in_partitions": in_partitions(row, known, producers, held, waits, offsets)}
        for row in rows
    ]
    document = {**answer.document, "transactions": found, "groups_not_asked": groups.not_asked}
    return replace(answer, document=document, failures=failures)


def in_partitions(
    described: Row,
    known: Iterable[TopicPartition],
    producers: Iterable[Row],
    held: Mapping[TopicPartition, HeldBackRecords],
    waits: Mapping[TopicPartition, Sequence[str]],
    offsets: Mapping[tuple[TopicPartition, int], int],
) -> list[Row]:
    """Return how a transaction stands in each of its partitions.

    :param described: its row of ``transactions describe``.
    :param known: the leaders of these partitions have said what they know of producers.
    :param producers: rows of ``producers describe`` of these partitions.
    :param waits: groups that wait, where there are any.
    :param offsets: where markers lie that were found, by partition and producer.
    """
    from oncelog_cli.internal_records import OFFSETS_TOPIC

    heard, told = set(known), _by_producer(producers)
    ended = {(each.partition, each.producer_id) for each in ended_in(described, told.values())}
    is_ending = marker_epoch(described) is not None
    found: list[Row] = []
    for tp, writer, producer_id in written_by(described):
        row = told.get((tp, producer_id))
        start = None if row is None else row["txn_start_offset"]
        # A coordinator of groups has no markers: it forgets the producer.
        marked = start is None if tp.topic == OFFSETS_TOPIC else (tp, producer_id) in ended
        ends = held.get(tp, HeldBackRecords())
        found.append(
            {
                **tp._asdict(),
                "writer": writer,
                "producer_id": producer_id,
                "open": start is not None if tp in heard else None,
                "start_offset": start,
                "marked": marked if is_ending and tp in heard else None,
                "marker_offset": offsets.get((tp, producer_id))
                if producer_id is not None
                else None,
                "last_stable_offset": ends.last_stable_offset,
                "high_watermark": ends.high_watermark,
                "holds_back": ends.records,
                "waiting_groups": list(waits.get(tp, ())),
            }
        )
    return found


def marker_epoch(described: Row) -> int | None:
    """Return the producer epoch of the markers that end a transaction; None: none are on their way,
    or its producer has come to its last epoch, and the coordinator tells the next producer."""
    if not described["state"].startswith("Prepare"):
        return None
    if described["shared"]:
        return SHARED_MARKER_EPOCH
    return described["producer_epoch"] or None


def ended_in(described: Row, producers: Iterable[Row]) -> list[EndedProducer]:
    """Return where the marker of a transaction is written.

    :param described: its row of ``transactions describe``.
    :param producers: rows of ``producers describe``.
    """
    epoch, told = marker_epoch(described), _by_producer(producers)
    found = []
    for tp, _, producer_id in written_by(described):
        row = told.get((tp, producer_id))
        if row is None or producer_id is None or row["txn_start_offset"] is not None:
            continue
        if epoch is not None and row["producer_epoch"] == epoch:
            found.append(EndedProducer(tp, producer_id, epoch, row["last_timestamp_ms"] or 0))
    return found


def _by_producer(producers: Iterable[Row]) -> dict[tuple[TopicPartition, int | None], Row]:
    from oncelog import TopicPartition

    return {
        (TopicPartition(row["topic"], row["partition"]), row["producer_id"]): row
        for row in producers
    }


def partitions_of(described: Row) -> list[TopicPartition]:
    """Return all partitions of a transaction, also those of the writers of a shared one."""
    from oncelog import TopicPartition

    rows = [*described["partitions"]]
    for writer in described["writers"]:
        rows += writer["partitions"]
    return sorted({TopicPartition(row["topic"], row["partition"]) for row in rows})


def written_by(described: Row) -> list[tuple[TopicPartition, str | None, int | None]]:
    """Return each partition with who writes there: a name, of shared transactions, and an id."""
    from oncelog import TopicPartition

    if described["writers"]:
        return [
            (TopicPartition(row["topic"], row["partition"]), each["writer"], each["producer_id"])
            for each in described["writers"]
            for row in each["partitions"]
        ]
    return [(tp, None, described["producer_id"]) for tp in partitions_of(described)]
