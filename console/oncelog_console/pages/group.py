"""One group is shown: how far behind it is and was, who is in it, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from oncelog import TopicPartition
from oncelog_cli.documents.answer import Failure
from oncelog_cli.documents.groups import described_groups
from oncelog_cli.documents.offsets import held_offsets
from oncelog_console import commands
from oncelog_console.chart import Chart, ChartMark, Line, line_chart
from oncelog_console.group_log import KnownLog, Pending
from oncelog_console.history import (
    Behind,
    GroupHistory,
    Point,
    SeenRebalance,
    Trend,
    trend_of,
)
from oncelog_console.listing import address_with, part_of
from oncelog_console.page import (
    ANSWER_MS,
    BadRequestError,
    NotFoundError,
    Page,
    PageRoute,
    Visit,
)
from oncelog_console.pages.groups import behind_of, partition_behind
from oncelog_console.pages.producers import ids_of
from oncelog_console.snapshot import Snapshot, Visible
from oncelog_protocol.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    InvalidGroupIdError,
    OncelogError,
)

TABS = ("lag", "members", "history")
SPANS = {"15m": 900_000, "1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000}
UNITS = ("records", "seconds")
PAGE_ROWS = 200
REBALANCES_SHOWN = 120


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """An open transaction will commit this offset, if it commits."""

    offset: int
    producer_id: int
    transactional_id: str | None
    """None: nobody has told whose producer it is."""
    at_ms: int


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """A partition has its row of ``groups describe``, the lag in time, and what is pending."""

    row: Mapping[str, Any]
    behind: Behind | None
    pending: tuple[PendingCommit, ...] = ()


@dataclass(frozen=True, slots=True)
class Looked:
    """An address asks for this of a group."""

    group: str
    tab: str = "lag"
    unit: str = "records"
    span: str = "1h"
    page: int = 1
    figures: bool = False
    """Whether the figures of the chart are shown as a table, too."""

    def address(self, **changed: object) -> str:
        """Return the address of the page with some of this changed."""
        fields = {
            "tab": "" if self.tab == "lag" else self.tab,
            "unit": "" if self.unit == "records" else self.unit,
            "span": "" if self.span == "1h" else self.span,
            "page": "" if self.page == 1 else str(self.page),
            "figures": "1" if self.figures else "",
        }
        return address_with(f"/groups/{quote(self.group, safe='')}", fields, changed)


@dataclass(frozen=True, slots=True)
class GroupView:
    """The view holds what the page shows."""

    looked: Looked
    described: Mapping[str, Any] | None
    """The group's row of ``groups describe``; None: its coordinator did not say."""
    listed: Mapping[str, Any] | None
    """Its row of ``groups list``, which may be older; None: nobody listed it."""
    failures: tuple[Failure, ...]
    """Why figures are missing."""
    chart: Chart
    behind: Behind | None
    trend: Trend | None
    offsets: tuple[OffsetRow, ...]
    """Those of this page, the worst first."""
    pages: int
    rebalances: tuple[SeenRebalance, ...]
    """The newest first."""
    pending_count: int
    log_error: str
    """Why the past could not be read."""
    log_read: bool
    """Whether it was read."""
    spans: tuple[str, ...]
    tabs: tuple[str, ...] = TABS
    units: tuple[str, ...] = UNITS


def looked_of(group: str, query: Mapping[str, str], page: int) -> Looked:
    """Return what an address asks for.

    :raises BadRequestError: there is no such tab, unit or span.
    """
    looked = Looked(
        group,
        query.get("tab", "") or "lag",
        query.get("unit", "") or "records",
        query.get("span", "") or "1h",
        page,
        bool(query.get("figures")),
    )
    for name, said, known in (
        ("tab", looked.tab, TABS),
        ("unit", looked.unit, UNITS),
        ("span", looked.span, tuple(SPANS)),
    ):
        if said not in known:
            raise BadRequestError(f"{name}={said!r}: there are {', '.join(known)}")
    return looked


def lag_chart(known: GroupHistory | None, looked: Looked, now_ms: int) -> Chart:
    """Return the lag over time: of each partition, or of the whole group in the tab of history."""
    what = "lag" if looked.unit == "records" else "lag in time"
    lines: list[Line] = []
    if known is not None and looked.tab == "history":
        lines = [Line("all", tuple(known.lag))]
    elif known is not None:
        lines = [
            Line(str(tp), history.lag if looked.unit == "records" else history.seconds_behind())
            for tp, history in sorted(known.partitions.items())
        ]
    marks = [
        ChartMark(each.at_ms, f"rebalance: {generation_text(each)}")
        for each in (() if known is None else known.rebalances)
    ]
    return line_chart(
        f"{what} of {looked.group}, {looked.span}",
        lines,
        marks,
        since_ms=now_ms - SPANS[looked.span],
        until_ms=now_ms,
        unit="seconds" if looked.unit == "seconds" and looked.tab == "lag" else "records",
        with_figures=looked.figures,
    )


def generation_text(item: SeenRebalance) -> str:
    """Return what a rebalance led to."""
    members = f"{item.member_count} member{'' if item.member_count == 1 else 's'}"
    return f"generation {item.generation_id}, {members}"


def offset_rows(
    described: Mapping[str, Any] | None,
    known: GroupHistory | None,
    pending: Mapping[TopicPartition, Sequence[PendingCommit]],
    now_ms: int,
) -> list[OffsetRow]:
    """Return the partitions of a group, the worst first: a lag that is not known, then large ones.

    Offsets that are pending where nothing was committed yet have a row as well.
    """
    rows = [] if described is None else list(described["offsets"])
    there = {TopicPartition(row["topic"], row["partition"]) for row in rows}
    empty = dict.fromkeys(("offset", "end_offset", "lag", "member", "client_host"))
    rows += [{**tp._asdict(), **empty} for tp in sorted(pending) if tp not in there]
    found = [
        OffsetRow(
            row,
            partition_behind(known, row, now_ms),
            tuple(pending.get(TopicPartition(row["topic"], row["partition"]), ())),
        )
        for row in rows
    ]

    def worst(item: OffsetRow) -> tuple[bool, int, str, int]:
        lag = item.row["lag"]
        return (lag is not None, -(lag or 0), item.row["topic"], item.row["partition"])

    return sorted(found, key=worst)


def pending_offsets(
    pending: Sequence[Pending], seen: Snapshot
) -> dict[TopicPartition, list[PendingCommit]]:
    """Return what open transactions will commit, with the ids of their producers."""
    ids = ids_of(seen)
    found: dict[TopicPartition, list[PendingCommit]] = {}
    for item in pending:
        name = ids.get(item.producer_id)
        found.setdefault(item.partition, []).append(
            PendingCommit(item.offset, item.producer_id, name, item.at_ms)
        )
    return found


def visible_history(known: GroupHistory | None, visible: Visible | None) -> GroupHistory | None:
    """Return the part of a history that a user may see."""
    if known is None or visible is None:
        return known
    partitions = {tp: item for tp, item in known.partitions.items() if tp.topic in visible.topics}
    return replace(known, partitions=partitions)


def visible_pending(pending: Sequence[Pending], visible: Visible | None) -> list[Pending]:
    """Return the pending offsets that a user may see."""
    return [item for item in pending if visible is None or item.partition.topic in visible.topics]


def view_of(
    looked: Looked,
    described: Mapping[str, Any] | None,
    failures: Sequence[Failure],
    seen: Snapshot,
    known: GroupHistory | None,
    log: KnownLog | None,
    pending: Sequence[Pending],
    now_ms: int,
) -> GroupView:
    """Return the view of a group, from what was told of it and what is remembered."""
    rows = offset_rows(described, known, pending_offsets(pending, seen), now_ms)
    part = part_of(rows, looked.page, PAGE_ROWS)
    looked = replace(looked, page=part.number)
    points: tuple[Point, ...] = () if known is None else tuple(known.lag)
    rebalances = () if known is None else tuple(known.rebalances)
    return GroupView(
        looked,
        described,
        next((row for row in seen.group_rows if row["group"] == looked.group), None),
        tuple(failures),
        lag_chart(known, looked, now_ms),
        behind_of(known, described, now_ms),
        trend_of(points, now_ms),
        part.items,
        part.pages,
        tuple(reversed(rebalances))[:REBALANCES_SHOWN],
        len(pending),
        "" if log is None else log.error,
        log is not None and log.read_ms is not None and not log.error,
        tuple(SPANS),
    )


async def show(visit: Visit) -> Page:
    """Show one group."""
    name = visit.named("group")
    looked = looked_of(name, visit.query, visit.number("page", 1, least=1, most=1_000_000))
    history, now_ms = visit.console.history, visit.now_ms
    answer = await described_groups(visit.admin, [name], timeout_ms=ANSWER_MS)
    described = next(iter(answer.document["groups"]), None)
    for failure in answer.failures:
        if isinstance(failure.error, GroupAuthorizationFailedError | InvalidGroupIdError):
            raise failure.error
        if isinstance(failure.error, GroupIdNotFoundError):
            raise NotFoundError(f"there is no group {name!r}")
    if described is None and all(row["group"] != name for row in visit.seen.group_rows):
        failure = answer.failures[0]  # Nobody has told this visitor that there is such a group.
        raise failure.error if isinstance(failure.error, OncelogError) else NotFoundError(name)
    history.look_at(name, now_ms)
    failures = list(answer.failures)
    if not visit.session.own_user:  # What one user may not see is no gap for others.
        if described is None:
            history.missed(name, now_ms)
        else:
            await visit.console.remember([described], now_ms)
    if described is not None:
        failures += await unknown_ends(visit, described)
    log, visible = visit.console.group_logs.look(name), visit.session.visible
    known = visible_history(history.of(name), visible)
    pending = visible_pending(log.facts.pending, visible)
    view = view_of(looked, described, failures, visit.seen, known, log, pending, now_ms)
    words = commands.command("groups describe", name)
    asked_ms = now_ms if described is not None else visit.seen.groups.asked_ms
    return Page(name, "group.html", view, words, answer, asked_ms)


async def unknown_ends(visit: Visit, described: Mapping[str, Any]) -> list[Failure]:
    """Return why the ends of some partitions are not known: their leaders are asked once more."""
    unknown = [
        TopicPartition(row["topic"], row["partition"])
        for row in described["offsets"]
        if row["offset"] is not None and row["end_offset"] is None
    ]
    if not unknown:
        return []
    leaders = leaders_of(visit.seen)
    _, errors = await held_offsets(visit.admin, unknown[:PAGE_ROWS], timeout_ms=ANSWER_MS // 3)
    return [
        Failure(str(tp), f"{_who(leaders.get(tp))} did not say where it ends: {error}")
        for tp, error in sorted(errors.items())
    ]


def _who(leader: int | None) -> str:
    return (
        "no broker leads it, and so nobody" if leader is None else f"its leader, broker {leader},"
    )


def leaders_of(seen: Snapshot) -> dict[TopicPartition, int]:
    """Return who leads each partition, as far as it is known."""
    return {
        TopicPartition(topic.topic, item.partition): item.leader
        for topic in seen.topic_list
        for item in topic.partitions
        if item.leader >= 0
    }


PAGES = (PageRoute("/groups/{group:path}", show),)
