"""``oncelog groups reset-offsets`` makes a plan where a group goes on, and writes it on request.

Rules: nothing is changed without ``--execute``. Wishes outside of what a log holds are moved to its
nearer end, and the row says so. A partition that cannot be reset is a line on stderr and exit code
1; the others are. With ``--export`` standard output is nothing but CSV.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.answer import Answer
from oncelog_cli.documents.group_reset import (
    executed_reset,
    offsets_of,
    planned_reset,
    reset_answer,
)
from oncelog_cli.group_offsets import (
    Chosen,
    Partition,
    csv_line,
    duration_ms,
    parse_partitions,
    read_csv,
    time_ms,
)
from oncelog_cli.options import (
    GroupArgument,
    UsageError,
    complete_groups,
    parsed,
    read_named_file,
)
from oncelog_cli.render import PARTITION_NAME, Column, Output

if TYPE_CHECKING:
    from oncelog import Admin, OffsetReset

COLUMNS = (
    *PARTITION_NAME,
    Column("OLD", "old", right=True),
    Column("NEW", "new", right=True),
    Column("START", "log_start_offset", right=True),
    Column("END", "end_offset", right=True),
    Column("NOTE", "note", show=lambda value: value or ""),
)


Topics = Annotated[
    list[str] | None,
    typed.Option("--topic", "-t", metavar="TOPIC[:N,...]", help="These partitions; repeatable."),
]
AllTopics = Annotated[
    bool, typed.Option("--all-topics", help="Every partition the group has committed to.")
]
ToEarliest = Annotated[bool, typed.Option("--to-earliest", help="To the first records there are.")]
ToLatest = Annotated[
    bool, typed.Option("--to-latest", help="Behind the last records there are now.")
]
ToCurrent = Annotated[
    bool, typed.Option("--to-current", help="To where the group is; with --export a backup.")
]
ToOffset = Annotated[
    int | None, typed.Option("--to-offset", min=0, metavar="N", help="To this offset.")
]
ShiftBy = Annotated[
    int | None, typed.Option("--shift-by", metavar="N", help="N offsets on; back if negative.")
]
ToDatetime = Annotated[
    str | None,
    typed.Option(
        "--to-datetime",
        metavar="TIME",
        help="To the first records at or after, as 2026-01-31T09:00:00Z.",
    ),
]
ByDuration = Annotated[
    str | None,
    typed.Option("--by-duration", metavar="DURATION", help="So long ago: PT1H30M, P1D, 1h30m."),
]
ToGroup = Annotated[
    str | None,
    typed.Option(
        "--to-group",
        metavar="GROUP",
        help="To where another group is, in the partitions that it has committed to.",
        autocompletion=complete_groups,
    ),
]
FromFile = Annotated[
    Path | None,
    typed.Option(
        "--from-file", metavar="PATH", help="Offsets as CSV, as --export writes; - is stdin."
    ),
]
Execute = Annotated[bool, typed.Option("--execute", help="Do it; else only the plan is shown.")]
Export = Annotated[
    bool, typed.Option("--export", help="The new offsets as CSV: topic,partition,offset.")
]


def reset_offsets(
    output: Output,
    cluster: NamedCluster,
    group: GroupArgument,
    topic: Topics = None,
    all_topics: AllTopics = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    to_group: ToGroup = None,
    from_file: FromFile = None,
    execute: Execute = False,
    export: Export = False,
) -> None:
    """Set where a group goes on reading; without --execute only say what would be set.

    The group must have no members: stop its consumers first.
    """
    given: dict[str, Any] = {
        "--to-earliest": to_earliest,
        "--to-latest": to_latest,
        "--to-current": to_current,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--to-group": to_group,
        "--from-file": from_file,
    }
    if export and not output.is_for_people:
        what = output.format.value.upper()
        raise UsageError(f"--export writes CSV, not {what}: give one of them")
    option, value = _one_of(given)
    chosen = _chosen(topic or [], all_topics, option)
    offsets = _read_file(value, group) if option == "--from-file" else None
    place = (
        None if option in ("--from-file", "--to-group") else parsed(option, _where, option, value)
    )

    async def work(admin: Admin) -> Answer:
        where = offsets or place or await offsets_of(admin, value, chosen)
        return await reset(admin, group, chosen, where, execute=execute)

    show_plan(cluster.ask(work), output, export=export)


async def reset(
    admin: Admin,
    group: str,
    chosen: Chosen | None,
    where: OffsetReset | Mapping[Partition, int],
    *,
    execute: bool,
) -> Answer:
    """Plan a reset, and carry it out with ``execute``."""
    plan = await planned_reset(admin, group, chosen, where)
    return await executed_reset(admin, plan) if execute else reset_answer(plan)


def _one_of(given: Mapping[str, Any]) -> tuple[str, Any]:
    named = [(o, value) for o, value in given.items() if value is not None and value is not False]
    if len(named) != 1:
        listed = " ".join(option for option, _ in named) or "none"
        raise UsageError(f"say where to, once: one of {', '.join(given)}; given: {listed}")
    return named[0]


def _chosen(topics: list[str], all_topics: bool, option: str) -> Chosen | None:
    """Return the chosen partitions; None means those that are committed, or those of the file."""
    if topics and all_topics:
        raise UsageError("--topic and --all-topics exclude each other")
    if option == "--from-file":
        if topics or all_topics:
            raise UsageError("--from-file names the partitions itself, without --topic")
        return None
    if not topics and not all_topics:
        if option == "--to-group":
            return None
        raise UsageError("say which partitions: --topic or --all-topics")
    if all_topics:
        return None
    return parsed("--topic", parse_partitions, topics)


def _read_file(path: Path, group: str) -> dict[Partition, int]:
    found = read_named_file(path, lambda lines: read_csv(lines, group))
    if not found:
        raise UsageError(f"--from-file {path}: no offsets for {group}")
    return found


def _where(option: str, value: Any) -> OffsetReset:
    from oncelog import OffsetReset

    match option:
        case "--to-earliest":
            return OffsetReset.to_earliest()
        case "--to-latest":
            return OffsetReset.to_latest()
        case "--to-current":
            return OffsetReset.to_current()
        case "--to-offset":
            return OffsetReset.to_offset(value)
        case "--shift-by":
            return OffsetReset.shift_by(value)
        case "--to-datetime":
            return OffsetReset.to_timestamp(time_ms(value))
        case _:
            now_ms = int(time.time() * 1000)
            return OffsetReset.to_timestamp(max(now_ms - duration_ms(value), 0))


def show_plan(answer: Answer, output: Output, *, export: bool) -> None:
    document = output.document_of(answer)
    rows = document["offsets"]
    if export:
        for row in rows:
            if row["new"] is not None:
                output.line(csv_line(row["topic"], row["partition"], row["new"]))
    else:
        output.table(COLUMNS, rows)
    if not rows:
        output.note(f"{document['group']} has committed nothing: name partitions with -t")
    elif not document["executed"]:
        output.note("nothing was changed: add --execute to do it")
    output.finish(document)
