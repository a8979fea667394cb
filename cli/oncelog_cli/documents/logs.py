"""A broker is asked here how a replica's log lies on disk, and for the way to an offset in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Document, Row, fields_of

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition
    from oncelog.admin.logs import LogDescription

FACTS = (
    "broker_id is_leader leader_epoch is_damaged log_start_offset last_stable_offset"
    " high_watermark synced_offset log_end_offset size_bytes"
)
SEGMENT_FIELDS = (
    "base_offset next_offset size_bytes record_count max_timestamp_ms retention_timestamp_ms"
    " created_ms first_epoch last_epoch index_entries"
)
BATCH_FIELDS = (
    "segment position base_offset last_offset record_count size_bytes leader_epoch codec"
    " timestamp_type base_timestamp_ms max_timestamp_ms producer_id producer_epoch base_sequence"
    " transactional marker"
)
ASKED_AT_ONCE = 500
"""One answer of a broker has at most so many batches."""
PAGES_TO_FIND = 16
"""An offset that is not found in so many answers behind its index entry is given up."""


async def described_log(
    admin: Admin,
    partition: TopicPartition,
    broker_id: int | None = None,
    *,
    from_offset: int = 0,
    offset: int | None = None,
    batches_from: int | None = None,
    batches: int = 0,
    pages_max: int | None = None,
    timeout_ms: int | None = None,
) -> Answer:
    """Return the document of ``dump-log --remote``: one replica's log, without its records.

    :param broker_id: None: the leader.
    :param from_offset: segments, leader epochs and aborted ranges from here on.
    :param offset: with the way to this offset, and the batches that are passed on it.
    :param batches_from: without ``offset``: with batches from the one that holds this offset on.
    :param batches: at least so many of them, if there are.
    :param pages_max: so many answers are enough for segments, epochs and aborted ranges; where
        there are more, ``next_offset`` is not None.
    :param timeout_ms: None: as long as the admin client waits.
    :raises ApiError: there is no such partition, or the broker has no replica of it.
    """
    options = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
    wanted = batches if offset is None else max(batches, ASKED_AT_ONCE)
    first = await admin.describe_log(
        partition,
        broker_id,
        from_offset=from_offset,
        at_offset=batches_from if offset is None and batches else offset,
        batches_from=batches_from if offset is None else None,
        batches=min(wanted, ASKED_AT_ONCE),
        **options,
    )
    lists = await _all_of(admin, first, pages_max, options)
    rows, last = await _batches_of(admin, first, offset, batches, options)
    index = [fields_of(each, "offset position max_timestamp_before_ms") for each in first.index]
    found = None if offset is None else way_to(offset, lists["segments"], index, rows)
    kept = rows[: max(batches, 0 if found is None else found["scanned_batches"])]
    return Answer(
        {
            **partition._asdict(),
            **fields_of(first, FACTS),
            **lists,
            "index": index,
            "batches": kept,
            "next_batch": rows[len(kept)]["base_offset"]
            if len(kept) < len(rows)
            else last.next_batch,
            "unreadable": last.unreadable,
            "found": found,
        }
    )


async def _batches_of(
    admin: Admin,
    first: LogDescription,
    offset: int | None,
    batches: int,
    options: dict[str, int],
) -> tuple[list[Row], LogDescription]:
    """Return the batches of the first answer and of those after it, until there are enough and the
    offset has been passed; and the last answer."""
    rows = [fields_of(each, BATCH_FIELDS) for each in first.batches]
    pages, last = 1, first
    while last.next_batch is not None:
        missing = batches - len(rows)
        behind = pages < PAGES_TO_FIND and _is_behind(rows, offset)
        if missing <= 0 and not behind:
            break
        last = await admin.describe_log(
            first.partition,
            first.broker_id,
            from_offset=first.log_end_offset,
            batches_from=last.next_batch,
            batches=ASKED_AT_ONCE if behind else min(missing, ASKED_AT_ONCE),
            **options,
        )
        rows += [fields_of(each, BATCH_FIELDS) for each in last.batches]
        pages += 1
    return rows, last


def _is_behind(rows: Sequence[Row], offset: int | None) -> bool:
    """Return whether the batch that holds the offset comes after those that are known."""
    return offset is not None and bool(rows) and bool(rows[-1]["last_offset"] < offset)


async def _all_of(
    admin: Admin, first: LogDescription, pages_max: int | None, options: dict[str, int]
) -> Document:
    """Return segments, leader epochs and aborted ranges, asking on where one answer is too small
    for them."""
    told, pages = first, 1
    segments: dict[int, Row] = {}
    epochs: dict[int, Row] = {}
    aborted: dict[int, Row] = {}
    while True:
        segments |= {each.base_offset: fields_of(each, SEGMENT_FIELDS) for each in told.segments}
        epochs |= {
            each.leader_epoch: fields_of(each, "leader_epoch start_offset") for each in told.epochs
        }
        aborted |= {
            each.marker_offset: fields_of(each, "producer_id first_offset marker_offset")
            for each in told.aborted
        }
        if told.next_offset is None or pages == pages_max:
            break
        told = await admin.describe_log(
            first.partition, first.broker_id, from_offset=told.next_offset, **options
        )
        pages += 1
    return {
        "segments": list(segments.values()),
        "epochs": list(epochs.values()),
        "aborted": list(aborted.values()),
        "next_offset": told.next_offset,
        "producer_snapshots": list(first.producer_snapshots),
    }


def way_to(
    offset: int, segments: Sequence[Row], index: Sequence[Row], batches: Sequence[Row]
) -> Row | None:
    """Return how a broker finds an offset: the segment by its name, the last index entry at or
    below, the batches behind it one by one; None when the offset is in none of them.

    :param batches: from the index entry on.
    """
    held = [each for each in segments if each["base_offset"] <= offset < each["next_offset"]]
    if not held:
        return None
    entries = [each for each in index if held[0]["base_offset"] <= each["offset"] <= offset]
    for number, batch in enumerate(batches, 1):
        if batch["base_offset"] <= offset <= batch["last_offset"]:
            return {
                "offset": offset,
                "segment": held[0]["base_offset"],
                "file": segment_file(held[0]["base_offset"]),
                "index_offset": entries[-1]["offset"] if entries else None,
                "index_position": entries[-1]["position"] if entries else None,
                "scanned_batches": number,
                "batch_base_offset": batch["base_offset"],
                "offset_in_batch": offset - batch["base_offset"],
            }
    return None


def segment_file(base_offset: int) -> str:
    """Return the name of a segment's file of records."""
    return f"{base_offset:020d}.log"


def steps(found: Row) -> list[str]:
    """Return in words how a broker finds an offset, step by step."""
    index = "no entry at or below it"
    if found["index_offset"] is not None:
        index = f"{found['index_offset']} at byte {found['index_position']}"
    return [
        f"1 segment by its name: {found['file']}",
        f"2 index: {index}",
        f"3 batches scanned: {found['scanned_batches']}",
        f"4 offset {found['offset']} is the batch's {found['batch_base_offset']}"
        f" + {found['offset_in_batch']}",
    ]
