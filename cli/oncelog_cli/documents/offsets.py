"""Leaders are asked here where partitions begin and end, and for the first record at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Failures, fields_of, waiting
from oncelog_cli.documents.names import topics_named
from oncelog_cli.offset_range import HeldOffsets

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition
    from oncelog.admin.offset_listing import OffsetSpec
    from oncelog.config import IsolationOption
    from oncelog.errors import ApiError


async def listed_offsets(
    admin: Admin,
    patterns: Sequence[str],
    at: OffsetSpec,
    *,
    regex: bool = False,
    partitions: Collection[int] = (),
    isolation_level: IsolationOption,
) -> Answer:
    """Return the document of ``topics offsets``: a row a partition; times in ms since 1970.

    Topics and partitions that fail are failures.

    :param at: "earliest", "latest", or the first record from a time on.
    :param partitions: only these of each topic; else all that it has.
    :raises CommandError: no topic is meant.
    """
    from oncelog import TopicPartition

    failures = Failures()
    names = await topics_named(admin, patterns, regex=regex)
    if partitions:
        wanted = [TopicPartition(name, n) for name in names for n in sorted(set(partitions))]
    else:
        described = failures.sound(await admin.describe_topics(names), lambda topic: topic.topic)
        wanted = [
            TopicPartition(topic.topic, item.partition)
            for topic in described
            for item in topic.partitions
        ]
    found = await admin.list_offsets(wanted, at, isolation_level=isolation_level)
    rows = [
        {**item.partition._asdict(), **fields_of(item, "offset timestamp_ms leader_epoch")}
        for item in failures.sound(found, lambda item: str(item.partition))
    ]
    return Answer({"at": at, "isolation_level": isolation_level, "offsets": rows}, failures)


async def held_offsets(
    admin: Admin, partitions: Collection[TopicPartition], *, timeout_ms: int | None = None
) -> tuple[dict[TopicPartition, HeldOffsets], dict[TopicPartition, ApiError]]:
    """Return what partitions hold up to their last stable offsets, and why others are not known.

    :param timeout_ms: None: as long as the admin client waits.
    """
    import asyncio

    options = waiting(timeout_ms)
    starts, ends = await asyncio.gather(
        admin.list_offsets(partitions, "earliest", **options),
        admin.list_offsets(partitions, "latest", isolation_level="read_committed", **options),
    )
    held: dict[TopicPartition, HeldOffsets] = {}
    errors: dict[TopicPartition, ApiError] = {}
    for start, end in zip(starts, ends, strict=True):
        error = start.error or end.error
        if error is not None:
            errors[start.partition] = error
        elif start.offset is not None and end.offset is not None:
            held[start.partition] = HeldOffsets(start.offset, end.offset)
    return held, errors
