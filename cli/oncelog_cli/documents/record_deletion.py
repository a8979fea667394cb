"""A deletion of records is settled here, partition by partition, and then carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from oncelog_cli.documents.answer import Answer, Failures, Row
from oncelog_cli.documents.offsets import held_offsets
from oncelog_cli.documents.partitions import chosen_partitions
from oncelog_cli.group_offsets import Chosen, Partition
from oncelog_cli.offset_range import Base, RangePoint, resolve_start

if TYPE_CHECKING:
    from oncelog import Admin


class WantedDeletion(NamedTuple):
    """These partitions are meant, up to one point or each up to an offset."""

    chosen: Chosen
    point: RangePoint | None
    offsets: Mapping[Partition, int]
    """Without a point each of the chosen partitions has an offset; below 0 is its end."""


async def planned_deletion(admin: Admin, wanted: WantedDeletion) -> Answer:
    """Return what ``delete-records --dry-run`` prints: a row a partition.

    A row has the offset ``before_offset`` below which all goes, and ``offsets``, which is how many
    that are. An offset that is not committed yet is a failure, and nothing would go there. So are
    partitions whose leaders do not say what they hold; they have no row.

    :raises ApiError: a topic cannot be described.
    :raises CommandError: there is no such partition.
    """
    from oncelog import TopicPartition

    failures, rows = Failures(), []
    chosen = await chosen_partitions(admin, wanted.chosen)
    known, errors = await held_offsets(admin, sorted(TopicPartition(*name) for name in chosen))
    for tp, error in errors.items():
        failures.fail(str(tp), error)
    point, found = wanted.point, {}
    if point is not None and point.base is Base.TIME:
        at_time = await admin.list_offsets(known, point.number, isolation_level="read_committed")
        answers = failures.sound(at_time, lambda item: str(item.partition))
        found = {item.partition: item.offset for item in answers}
        known = {tp: known[tp] for tp in found}
    for tp, held in known.items():
        if point is not None:
            offset = resolve_start(point, held, found.get(tp))
        else:
            offset = wanted.offsets[tp.topic, tp.partition]
            offset = held.end if offset < 0 else offset
        if offset > held.end:
            failures.fail(str(tp), f"{tp}: offset {offset} is not committed, it ends at {held.end}")
        rows.append(
            {
                **tp._asdict(),
                "start_offset": held.start,
                "end_offset": held.end,
                "before_offset": offset,
                "offsets": max(offset - held.start, 0) if offset <= held.end else 0,
                "low_watermark": None,
            }
        )
    return Answer({"dry_run": True, "partitions": rows}, failures)


async def deleted_records(admin: Admin, planned: Sequence[Row]) -> Answer:
    """Delete what rows of :func:`planned_deletion` say, and return what ``delete-records`` prints.

    Rows of what was deleted have a ``low_watermark``: the first offset that is left.
    """
    from oncelog import TopicPartition

    failures = Failures()
    by_name = {TopicPartition(row["topic"], row["partition"]): row for row in planned}
    offsets = {tp: row["before_offset"] for tp, row in by_name.items() if row["offsets"]}
    for outcome in await admin.delete_records(offsets):
        tp, error = outcome.partition, outcome.error
        if error is None:
            by_name[tp] = {**by_name[tp], "low_watermark": outcome.low_watermark}
        else:
            by_name[tp] = {**by_name[tp], "error": error.name}
            failures.fail(str(tp), error)
    return Answer({"dry_run": False, "partitions": list(by_name.values())}, failures)
