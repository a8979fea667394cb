"""One record is shown whole: its value in every form, its batch, and who has not read it yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oncelog import Record, TopicPartition
from oncelog.consumer.markers import TransactionMarker
from oncelog_cli.documents.logs import described_log
from oncelog_cli.internal_records import decoded
from oncelog_cli.offset_range import OFFSET_MAX
from oncelog_console.decoding import Form, forms_of, preview
from oncelog_console.page import NotFoundError, Page, PageRoute, Redirect, Visit, wants_json
from oncelog_console.pages.log import TIMEOUT_MS, partition_of
from oncelog_console.rendering import segment
from oncelog_console.snapshot import Snapshot
from oncelog_protocol.errors import OncelogError

HEADERS_MAX = 200
GROUPS_MAX = 50


@dataclass(frozen=True, slots=True)
class Reader:
    """A group has committed an offset of the partition that is not behind the record."""

    group: str
    offset: int
    behind: int
    """So many offsets before the record."""


@dataclass(frozen=True, slots=True)
class Header:
    """It is one header of the record."""

    name: str
    value: str | None
    value_bytes: int | None


@dataclass(frozen=True, slots=True)
class RecordView:
    """The view holds what the page shows."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    state: str
    """See ``reading.Row.state``."""
    key: Form | None = None
    """None: there is none."""
    key_bytes: int | None = None
    value: Form | None = None
    """It is in the form that is shown; None: there is none."""
    value_bytes: int | None = None
    forms: tuple[str, ...] = ()
    """Names of the forms that the value has."""
    headers: tuple[Header, ...] = ()
    header_count: int = 0
    readers: tuple[Reader, ...] = ()
    batch: Mapping[str, Any] | None = None
    """The batch that it is in, as ``dump-log --remote`` prints it; None: it could not be asked."""
    batch_error: str = ""
    producer: str = ""
    """It is that of the end of a transaction."""

    @property
    def base(self) -> str:
        """Return the address of the topic."""
        return f"/topics/{segment(self.topic)}"


def record_view(
    record: Record,
    state: str,
    chosen: str,
    readers: Sequence[Reader],
    table: Form | None = None,
) -> RecordView:
    """Return the view of a record.

    :param chosen: the form of the value that is shown; the first one where it has no such form.
    :param table: the value as a table, if it is one.
    """
    shown = decoded(record)
    forms = [] if shown.value is None else forms_of(shown.value)
    if table is not None:
        forms.insert(0, table)
    value = next((form for form in forms if form.name == chosen), forms[0] if forms else None)
    return RecordView(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        state,
        None if shown.key is None else forms_of(shown.key)[0],
        None if record.key is None else len(record.key),
        value,
        None if record.value is None else len(record.value),
        tuple(form.name for form in forms),
        tuple(
            Header(name, preview(data), None if data is None else len(data))
            for name, data in record.headers[:HEADERS_MAX]
        ),
        len(record.headers),
        tuple(readers),
    )


def marker_view(marker: TransactionMarker, state: str) -> RecordView:
    """Return the view of the end of a transaction."""
    return RecordView(
        marker.topic,
        marker.partition,
        marker.offset,
        marker.timestamp,
        state,
        producer=f"producer {marker.producer_id}, epoch {marker.producer_epoch}",
    )


def readers_of(seen: Snapshot, partition: TopicPartition, offset: int) -> list[Reader]:
    """Return the groups that are known not to have read a record yet, the closest first."""
    answer = seen.described_groups.value
    found = [
        Reader(row["group"], each["offset"], offset - each["offset"])
        for row in ([] if answer is None else answer.document["groups"])
        for each in row["offsets"]
        if (each["topic"], each["partition"]) == partition
        and each["offset"] is not None
        and each["offset"] <= offset
    ]
    return sorted(found, key=lambda reader: (reader.behind, reader.group))[:GROUPS_MAX]


async def show(visit: Visit) -> Page | Redirect:
    """Show what is at an offset.

    :raises NotFoundError: nothing is there.
    """
    partition = partition_of(visit)
    offset = int(visit.named("offset"))
    if offset > OFFSET_MAX:
        raise NotFoundError(f"there is no offset {offset}")
    if wants_json(visit.request):
        # The command prints no document, but a line.
        range_ = f"from=offset:{offset}&to=offset:{offset + 1}&isolation=all"
        base = f"/topics/{segment(partition.topic)}/messages.jsonl"
        return Redirect(f"{base}?p={partition.partition}&{range_}")
    found = await visit.console.browsing.one(visit.session.clients, partition, offset)
    if found is None:
        raise NotFoundError(
            f"no record is at offset {offset:,} of {partition}: it was not written yet, it is"
            " gone by retention or compaction, or nobody has ever used this offset"
        )
    what, state = found
    if isinstance(what, Record):
        table = None if what.value is None else await visit.console.tables.form_of(what.value)
        readers = readers_of(visit.seen, partition, offset)
        view = record_view(what, state, visit.query.get("as", ""), readers, table)
    else:
        view = marker_view(what, state)
    view = await _with_batch(visit, view, partition)
    name = f"{partition.topic}-{partition.partition}@{offset}"
    return Page(name, "record.html", view, command_of(view), asked_ms=visit.now_ms)


def command_of(view: RecordView) -> tuple[str, ...]:
    """Return the command that prints the record."""
    return (
        *("consume", view.topic, "--partition", str(view.partition)),
        *("--offset", f"{view.offset}:{view.offset + 1}"),
        *("--isolation-level", "read_uncommitted"),
        *(["--print-control-records"] if view.producer else []),
        "--json",
    )


async def _with_batch(visit: Visit, view: RecordView, partition: TopicPartition) -> RecordView:
    try:
        answer = await described_log(
            visit.admin, partition, offset=view.offset, pages_max=1, timeout_ms=TIMEOUT_MS
        )
    except OncelogError as error:
        return replace(view, batch_error=str(error) or type(error).__name__)
    found = answer.document["found"]
    if found is None:
        return replace(view, batch_error="the leader does not have this offset any more")
    (batch,) = [
        each
        for each in answer.document["batches"]
        if each["base_offset"] == found["batch_base_offset"]
    ]
    return replace(view, batch=batch)


PAGES = (PageRoute("/topics/{topic}/{partition:int}/{offset:int}", show),)
