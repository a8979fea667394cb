"""A reset of offsets is planned here, and written as it was planned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncelog_cli.documents.answer import Answer, Failures, fields_of
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen, Partition

if TYPE_CHECKING:
    from oncelog import Admin, OffsetReset, TopicPartition
    from oncelog.admin.group_results import ResetPlan


async def offsets_of(admin: Admin, group: str, chosen: Chosen | None) -> dict[Partition, int]:
    """Return another group's committed offsets of the chosen partitions; None chooses all.

    :raises CommandError: it has committed nothing there.
    """
    committed = await admin.list_group_offsets(group)
    found = {
        (tp.topic, tp.partition): item.offset
        for tp, item in committed.items()
        if item is not None and (chosen is None or tp in chosen)
    }
    if not found:
        raise CommandError(f"{group} has committed nothing there")
    return found


async def planned_reset(
    admin: Admin,
    group: str,
    chosen: Chosen | None,
    where: OffsetReset | Mapping[Partition, int],
) -> ResetPlan:
    """Return what would be written: a plan, which is carried out as it is or not at all.

    :param chosen: which partitions; None means all that the group has committed.
    :param where: the place where all of them go, or the offset of each, which names them itself.
    """
    from oncelog import TopicPartition

    if isinstance(where, Mapping):
        wanted = {TopicPartition(*name): offset for name, offset in where.items()}
        return await admin.plan_offset_reset(group, wanted)
    named: dict[str, Any] = {}
    if chosen is not None:
        partitions = [TopicPartition(*name) for name in chosen.partitions]
        named = {"topics": chosen.topics, "partitions": partitions}
    return await admin.plan_offset_reset(group, where, **named)


def reset_answer(
    plan: ResetPlan, failed: Mapping[TopicPartition, Exception] | None = None
) -> Answer:
    """Return the document of ``groups reset-offsets``: a row a partition; None is not known.

    Partitions that cannot be reset are failures, and so are those that have ``failed``.

    :param failed: why partitions were not reset; None: the plan was not carried out.
    """
    failures, rows = Failures(), []
    for row in plan.rows:
        tp = row.partition
        error = (failed or {}).get(tp)
        if row.new is None:
            failures.fail(str(tp), row.note)
        elif error is not None:
            failures.fail(str(tp), error)
        rows.append(
            {
                **tp._asdict(),
                "old": row.current,
                **fields_of(row, "new log_start_offset end_offset note"),
                "reset": failed is not None and row.new is not None and error is None,
            }
        )
    executed = failed is not None
    return Answer({"group": plan.group_id, "executed": executed, "offsets": rows}, failures)


async def executed_reset(admin: Admin, plan: ResetPlan) -> Answer:
    """Write the offsets of a plan, and return its document with what became of them.

    :raises GroupHasMembersError: the group has live members.
    """
    outcomes = await admin.reset_group_offsets(plan)
    return reset_answer(
        plan, {each.partition: each.error for each in outcomes if each.error is not None}
    )
