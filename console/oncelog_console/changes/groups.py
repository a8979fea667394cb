"""Groups are reset, cloned and deleted by these changes, and their offsets are deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncelog import OffsetReset, Record, TopicPartition
from oncelog.admin.group_results import GroupHasMembersError, ResetPlan
from oncelog_cli.documents.answer import Answer, Row
from oncelog_cli.documents.group_reset import (
    executed_reset,
    offsets_of,
    planned_reset,
    reset_answer,
)
from oncelog_cli.documents.groups import (
    deleted_groups,
    deleted_offsets,
    described_groups,
    doomed_groups,
    doomed_offsets,
)
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import (
    Chosen,
    Partition,
    duration_ms,
    parse_partitions,
    read_csv,
    time_ms,
)
from oncelog_console import commands
from oncelog_console.changes.change import (
    ChangeKind,
    ClusterChange,
    Desk,
    FormError,
    FormField,
    Preview,
    RefusedError,
    ShownColumn,
    Table,
    Values,
    all_sound,
    failures_text,
    needed_name,
)
from oncelog_console.commands import CommandLine
from oncelog_console.decoding import preview
from oncelog_console.look import iso
from oncelog_console.rendering import segment

SHOWN_CHARACTERS = 80
"""So much of a record is shown in a plan."""
RESET_COLUMNS = (
    ShownColumn("TOPIC", "topic"),
    ShownColumn("P", "partition", "number"),
    ShownColumn("NOW", "old", "number"),
    ShownColumn("WOULD BE", "new", "number"),
    ShownColumn("DIFFERENCE", "difference", "difference"),
    ShownColumn("RECORD AT IT", "record", "code"),
    ShownColumn("NOTE", "note"),
)


class _GroupChange(ClusterChange):
    """It changes one group."""

    group: str

    @property
    def subject(self) -> str:
        return f"group {self.group}"

    @property
    def typed(self) -> str:
        return self.group

    @property
    def page(self) -> str:
        return f"/groups/{segment(self.group)}"


class _ResetChange(_GroupChange):
    """It writes offsets of a group; the look at it leaves the plan of the reset as ``work``."""

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await executed_reset(desk.admin, seen.work)

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        return await written(desk, seen.work)


# ------------------------------------------------------------------------------ resets


async def reset_seen(desk: Desk, plan: ResetPlan) -> Preview:
    """Return what a look at a reset shows: where each partition is, and would be.

    :raises RefusedError: nothing would be reset.
    """
    answer = reset_answer(plan)
    if not plan.offsets:
        why = failures_text(answer.failures) or f"{plan.group_id} has committed nothing there"
        raise RefusedError(f"nothing would be reset: {why}")
    wanted = {
        row.partition: row.new
        for row in plan.rows
        if row.new is not None and row.new < row.end_offset
    }
    records = await desk.records_at(wanted)
    rows = [_reset_row(row, plan, records) for row in answer.document["offsets"]]
    facts: dict[str, object] = {}
    for item in plan.rows:
        facts[f"the offset of {plan.group_id} in {item.partition}"] = item.current
        facts[f"the new offset in {item.partition}"] = item.new
        facts[f"the start of {item.partition}"] = item.log_start_offset
    again = sum(max(0, -(row["difference"] or 0)) for row in rows)
    passed = sum(max(0, row["difference"] or 0) for row in rows)
    sentences = [
        f"{plan.group_id} goes on elsewhere in {len(plan.offsets)} of {len(rows)} partitions:"
        f" up to {again:,} records are read again, and up to {passed:,} are passed over.",
    ]
    warnings = [f"{each.item}: {each.message}" for each in answer.failures]
    table = Table("Where the group goes on", RESET_COLUMNS, rows)
    return Preview(answer, facts, sentences, [table], warnings, work=plan)


def _reset_row(row: Row, plan: ResetPlan, records: Mapping[TopicPartition, Record]) -> Row:
    old, new = row["old"], row["new"]
    record = records.get(TopicPartition(row["topic"], row["partition"]))
    if new is not None and new >= row["end_offset"]:
        shown: str | None = "none yet: this is the end"
    else:
        shown = None if record is None else shown_record(record)
    difference = None if old is None or new is None else new - old
    return {**row, "difference": difference, "record": shown}


def shown_record(record: Record) -> str:
    """Return the first characters of a record, on one line: its key if it has one, and its value.

    Bytes that are no text are shown in hex.
    """
    key, value = (preview(part, SHOWN_CHARACTERS) for part in (record.key, record.value))
    text = "null" if value is None else value
    text = text if key is None else f"{key}: {text}"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


async def written(desk: Desk, plan: ResetPlan) -> bool:
    """Return whether a group has committed what a plan says."""
    partitions = list(plan.offsets)
    committed = await desk.admin.list_group_offsets(plan.group_id, partitions)
    return all(
        (item := committed.get(tp)) is not None and item.offset == offset
        for tp, offset in plan.offsets.items()
    )


async def reset_plan(
    desk: Desk, group: str, chosen: Chosen | None, where: OffsetReset | Mapping[Partition, int]
) -> ResetPlan:
    """Plan a reset.

    :raises RefusedError: the group has members, which the text names; or nothing is there.
    """
    try:
        return await planned_reset(desk.admin, group, chosen, where)
    except (GroupHasMembersError, CommandError) as error:
        raise RefusedError(str(error)) from None


@dataclass(frozen=True, slots=True)
class ResetOffsets(_ResetChange):
    """A group goes on reading elsewhere."""

    group: str
    place: str
    """It is the command's option, without dashes: "to_earliest", "to_group", "from_file", ..."""
    value: str | int | bool
    topics: Sequence[str] = ()
    """As ``--topic`` takes them; none are all that the group has committed to."""
    where: OffsetReset | None = None
    offsets: Mapping[Partition, int] | None = None
    """A file has these."""
    kind = "reset-offsets"

    def command(self, seen: Preview) -> CommandLine:
        if self.offsets is not None:
            return commands.reset_to_file(self.group, self.offsets)
        return commands.reset_offsets(self.group, self.place, self.value, self.topics)

    async def look(self, desk: Desk) -> Preview:
        chosen = parse_partitions(self.topics) if self.topics else None
        where: OffsetReset | Mapping[Partition, int] | None = self.where or self.offsets
        if where is None:
            try:
                where = await offsets_of(desk.admin, str(self.value), chosen)
            except CommandError as error:
                raise RefusedError(str(error)) from None
        return await reset_seen(desk, await reset_plan(desk, self.group, chosen, where))


PLACES = (
    ("to_earliest", "the first records there are"),
    ("to_latest", "behind the last records there are now"),
    ("to_datetime", "a time: 2026-01-31T09:00:00Z"),
    ("by_duration", "so long ago: 1h30m"),
    ("shift_by", "so many offsets on, or back: -100"),
    ("to_offset", "an offset"),
    ("to_group", "where another group is"),
    ("from_file", "offsets as CSV: topic,partition,offset"),
)


def _reset(values: Values, now_ms: int) -> ResetOffsets:
    group, place, text = needed_name(values, "group"), values["place"], values["value"].strip()
    topics = values["topics"].split()
    try:
        parse_partitions(topics)
    except ValueError as error:
        raise FormError(f"topics: {error}") from None
    if place == "from_file":
        return _reset_to_file(values, group, topics)
    if place in ("to_earliest", "to_latest"):
        if text:
            raise FormError(f"value: {dict(PLACES)[place]} needs none; leave it empty")
        earliest = place == "to_earliest"
        where = OffsetReset.to_earliest() if earliest else OffsetReset.to_latest()
        return ResetOffsets(group, place, True, topics, where)
    if not text:
        raise FormError(f"value: say which: {dict(PLACES)[place]}")
    if place == "to_group":
        return ResetOffsets(group, place, values["value"].strip("\r\n"), topics)
    try:
        if place == "to_offset":
            number = _whole(text, least=0)
            return ResetOffsets(group, place, number, topics, OffsetReset.to_offset(number))
        if place == "shift_by":
            number = _whole(text, least=-(2**63))
            return ResetOffsets(group, place, number, topics, OffsetReset.shift_by(number))
        # A duration counts from now: the command names the time, so that it says the same later.
        at_ms = time_ms(text) if place == "to_datetime" else max(now_ms - duration_ms(text), 0)
        moment, where = iso(at_ms), OffsetReset.to_timestamp(at_ms)
    except (ValueError, OverflowError) as error:
        raise FormError(f"value: {error}") from None
    return ResetOffsets(group, "to_datetime", moment, topics, where)


def _whole(text: str, *, least: int) -> int:
    try:
        value = int(text.replace(",", "")) if len(text) <= 25 else 2**63
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
    if not least <= value < 2**63:
        raise ValueError(f"{text} is not between {least} and {2**63 - 1}")
    return value


def _reset_to_file(values: Values, group: str, topics: Sequence[str]) -> ResetOffsets:
    if topics:
        raise FormError("topics: a file names the partitions itself; leave it empty")
    try:
        offsets = read_csv(values["value"].splitlines(), group)
    except ValueError as error:
        raise FormError(f"value: {error}") from None
    if not offsets:
        raise FormError(f"value: there are no offsets for {group}")
    return ResetOffsets(group, "from_file", "-", (), None, offsets)


RESET_OFFSETS = ChangeKind(
    "reset-offsets",
    "Reset offsets",
    "A group without members goes on reading elsewhere.",
    (
        FormField("group", "Group", required=True),
        FormField("place", "Where to", "choice", choices=PLACES, default="to_earliest"),
        FormField("value", "Time, duration, number, group or CSV", "area"),
        FormField(
            "topics",
            "Topics and partitions",
            help="As orders or orders:0,2, with spaces between. Empty: all that it has committed.",
        ),
    ),
    _reset,
)


# ------------------------------------------------------------------------------ clone


@dataclass(frozen=True, slots=True)
class CloneGroup(_ResetChange):
    """A group gets the offsets of another one."""

    source: str
    group: str
    """It gets them."""
    kind = "clone-group"

    def command(self, seen: Preview) -> CommandLine:
        return commands.clone_group(self.source, self.group)

    async def look(self, desk: Desk) -> Preview:
        try:
            offsets = await offsets_of(desk.admin, self.source, None)
        except CommandError as error:
            raise RefusedError(str(error)) from None
        return await reset_seen(desk, await reset_plan(desk, self.group, None, offsets))


def _clone(values: Values, now_ms: int) -> CloneGroup:
    source, group = needed_name(values, "source"), needed_name(values, "group")
    if source == group:
        raise FormError("group: it is the same as the source")
    return CloneGroup(source, group)


CLONE_GROUP = ChangeKind(
    "clone-group",
    "Clone a group",
    "A group without members gets the committed offsets of another one.",
    (
        FormField("source", "From the group", required=True),
        FormField("group", "To the group", required=True),
    ),
    _clone,
)


# ------------------------------------------------------------------------------ delete


@dataclass(frozen=True, slots=True)
class DeleteGroup(_GroupChange):
    """A group goes with its offsets."""

    group: str
    kind = "delete-group"

    @property
    def page(self) -> str:
        return "/groups"

    def command(self, seen: Preview) -> CommandLine:
        return commands.delete_group(self.group)

    async def look(self, desk: Desk) -> Preview:
        answer = all_sound(await doomed_groups(desk.admin, [self.group]))
        described = all_sound(await described_groups(desk.admin, [self.group]))
        (row,) = described.document["groups"]
        rows = row["offsets"]
        facts: dict[str, object] = {
            "the state of the group": row["state"],
            "its members": row["member_count"],
        }
        for each in rows:
            name = f"the offset of {self.group} in {each['topic']}-{each['partition']}"
            facts[name] = each["offset"]
        columns = (
            ShownColumn("TOPIC", "topic"),
            ShownColumn("P", "partition", "number"),
            ShownColumn("COMMITTED", "offset", "number"),
            ShownColumn("LAG", "lag", "number"),
            ShownColumn("WHEN", "commit_timestamp", "time"),
        )
        sentence = (
            f"{self.group} is forgotten, with {len(rows)} committed offsets. A consumer that uses"
            " the name again begins where its auto_offset_reset says."
        )
        return Preview(answer, facts, [sentence], [Table("What goes", columns, rows)])

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await deleted_groups(desk.admin, [self.group])

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        return self.group not in [row["group"] for row in desk.seen().group_rows]


def _delete(values: Values, now_ms: int) -> DeleteGroup:
    return DeleteGroup(needed_name(values, "group"))


DELETE_GROUP = ChangeKind(
    "delete-group",
    "Delete a group",
    "A group without members is forgotten, with its offsets.",
    (FormField("group", "Group", required=True),),
    _delete,
)


@dataclass(frozen=True, slots=True)
class DeleteOffsets(_GroupChange):
    """A group forgets what it has committed for some topics."""

    group: str
    topics: Sequence[str]
    kind = "delete-offsets"

    def command(self, seen: Preview) -> CommandLine:
        return commands.delete_offsets(self.group, self.topics)

    async def look(self, desk: Desk) -> Preview:
        chosen = parse_partitions(self.topics)
        described = all_sound(await described_groups(desk.admin, [self.group]))
        (group,) = described.document["groups"]
        subscribed = {topic for member in group["members"] for topic in member["topics"]}
        busy = [name for name in self._named(chosen) if name in subscribed]
        if busy:
            members = ", ".join(member["client_id"] for member in group["members"])
            raise RefusedError(
                f"members of {self.group} read {', '.join(busy)}: {members}; stop them first"
            )
        answer = all_sound(await doomed_offsets(desk.admin, self.group, chosen))
        doomed = answer.document["offsets"]
        known = {(row["topic"], row["partition"]): row for row in group["offsets"]}
        rows = [known.get((row["topic"], row["partition"]), row) for row in doomed]
        facts: dict[str, object] = {
            "topics that its members read": tuple(sorted(subscribed)),
            **{
                f"the offset of {self.group} in {row['topic']}-{row['partition']}": row.get(
                    "offset"
                )
                for row in rows
            },
        }
        columns = (
            ShownColumn("TOPIC", "topic"),
            ShownColumn("P", "partition", "number"),
            ShownColumn("COMMITTED", "offset", "number"),
            ShownColumn("LAG", "lag", "number"),
        )
        sentence = f"{self.group} forgets {len(rows)} committed offsets, for good."
        table = Table("What goes", columns, rows)
        return Preview(answer, facts, [sentence], [table], work=doomed)

    def _named(self, chosen: Chosen) -> list[str]:
        return list(dict.fromkeys([*chosen.topics, *(name for name, _ in chosen.partitions)]))

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await deleted_offsets(desk.admin, self.group, seen.work)

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        committed = await desk.admin.list_group_offsets(self.group)
        gone = [TopicPartition(row["topic"], row["partition"]) for row in seen.work]
        return all(committed.get(tp) is None for tp in gone)


def _delete_offsets(values: Values, now_ms: int) -> DeleteOffsets:
    group, topics = needed_name(values, "group"), values["topics"].split()
    if not topics:
        raise FormError("topics: say which")
    try:
        parse_partitions(topics)
    except ValueError as error:
        raise FormError(f"topics: {error}") from None
    return DeleteOffsets(group, topics)


DELETE_OFFSETS = ChangeKind(
    "delete-offsets",
    "Delete offsets of a group",
    "A group forgets what it has committed for topics that none of its members reads.",
    (
        FormField("group", "Group", required=True),
        FormField(
            "topics",
            "Topics and partitions",
            help="As orders or orders:0,2, with spaces between.",
            required=True,
        ),
    ),
    _delete_offsets,
)
KINDS = (RESET_OFFSETS, CLONE_GROUP, DELETE_GROUP, DELETE_OFFSETS)
