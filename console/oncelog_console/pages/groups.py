"""All groups are shown a page at a time; only the groups of the page are described."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog import TopicPartition
from oncelog.admin.group_results import GROUP_STATES
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.groups import described_groups
from oncelog_console import commands
from oncelog_console.chart import sparkline
from oncelog_console.commands import Command
from oncelog_console.filters import NameFilter, name_filter
from oncelog_console.history import Behind, FigureHistory, GroupHistory, Trend, trend_of
from oncelog_console.listing import address_with, part_of
from oncelog_console.page import ANSWER_MS, BadRequestError, Page, PageRoute, Visit
from oncelog_console.snapshot import Snapshot
from oncelog_console.svg import Picture

PAGE_ROWS = 50
SORTS = ("group", "state", "member_count", "coordinator", "lag")
SPARK_MS = 1_800_000
"""The small picture of a lag shows half an hour."""
ADDRESS = "/groups"


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """It says which groups are shown, and in which order."""

    name: NameFilter
    state: str = ""
    sort: str = "group"
    """A field, with "-" before it for the largest first."""
    page: int = 1

    def address(self, **changed: object) -> str:
        """Return the address of the page with some of this changed."""
        fields = {
            "q": self.name.text,
            "state": self.state,
            "sort": "" if self.sort == "group" else self.sort,
            "page": "" if self.page == 1 else str(self.page),
        }
        return address_with(ADDRESS, fields, changed)

    @property
    def command(self) -> Command:
        """Return the command that lists the same groups; it knows no order and no pages."""
        return commands.command(
            "groups list", *self.name.patterns, regex=self.name.is_set, state=self.state or None
        )


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group has what ``groups list`` says of it, and what its coordinator says now."""

    listed: Mapping[str, Any]
    described: Mapping[str, Any] | None
    """Its row of ``groups describe``; None: it could not be described."""
    why: str
    """Why it could not."""
    behind: Behind | None
    """Its lag in time, of the partition that is furthest behind; None: not known."""
    trend: Trend | None
    picture: Picture


@dataclass(frozen=True, slots=True)
class Groups:
    """The view holds what the page shows."""

    rows: tuple[GroupRow, ...]
    count: int
    first: int
    """Number of the first row of this page, from 1."""
    page: int
    pages: int
    chosen: GroupFilter
    known: bool
    """Whether groups were ever listed; else there are none for another reason."""
    missing: tuple[Failure, ...]
    """These brokers did not say which groups they have."""
    states: tuple[str, ...] = GROUP_STATES


def filter_of(query: Mapping[str, str], page: int) -> GroupFilter:
    """Return what an address asks for.

    :raises BadRequestError: a state, an order or an expression that there is not.
    """
    state, sort = query.get("state", ""), query.get("sort", "") or "group"
    if state and state not in GROUP_STATES:
        raise BadRequestError(f"state={state!r}: there are {', '.join(GROUP_STATES)}")
    if sort.removeprefix("-") not in SORTS:
        raise BadRequestError(f"sort={sort!r}: there are {', '.join(SORTS)}")
    return GroupFilter(name_filter(query.get("q", "")), state, sort, page)


def chosen_rows(seen: Snapshot, chosen: GroupFilter) -> list[dict[str, Any]]:
    """Return the rows of ``groups list`` that are chosen, in the order of the command."""
    return [
        row
        for row in seen.group_rows
        if chosen.name.fits(row["group"]) and chosen.state in ("", row["state"])
    ]


def ordered(
    rows: Sequence[dict[str, Any]], sort: str, lag: Callable[[str], float | None]
) -> list[dict[str, Any]]:
    """Return rows in an order; those of which the figure is not known come last.

    :param lag: the last lag that was seen of a group.
    """
    name, downward = sort.removeprefix("-"), sort.startswith("-")

    def figure(row: dict[str, Any]) -> Any:
        return lag(row["group"]) if name == "lag" else row[name]

    known = [row for row in rows if figure(row) is not None]
    known.sort(key=figure, reverse=downward)
    return known + [row for row in rows if figure(row) is None]


def group_rows(
    rows: Sequence[Mapping[str, Any]], answer: Answer | None, history: FigureHistory, now_ms: int
) -> tuple[GroupRow, ...]:
    """Return the rows of a page.

    :param answer: the document of ``groups describe`` of these groups.
    """
    described = {} if answer is None else {row["group"]: row for row in answer.document["groups"]}
    found = []
    for row in rows:
        name = row["group"]
        known = history.of(name)
        points = () if known is None else tuple(known.lag)
        trend = trend_of(points, now_ms)
        title = f"lag of {name} in the last 30 minutes: {trend or 'not known yet'}"
        found.append(
            GroupRow(
                row,
                described.get(name),
                "" if name in described else why_of(answer, name),
                behind_of(known, described.get(name), now_ms),
                trend,
                sparkline(title, points, since_ms=now_ms - SPARK_MS, until_ms=now_ms),
            )
        )
    return tuple(found)


def why_of(answer: Answer | None, name: str) -> str:
    """Return why an item has no figures."""
    failures = () if answer is None else answer.failures
    return next((each.message for each in failures if each.item == name), "nobody was asked")


def behind_of(
    known: GroupHistory | None, described: Mapping[str, Any] | None, now_ms: int
) -> Behind | None:
    """Return the lag in time of a group: of the partition that is furthest behind.

    None: it is not known, as is that of one of its partitions.
    """
    offsets = () if described is None else described["offsets"]
    found = [partition_behind(known, item, now_ms) for item in offsets]
    times = [each for each in found if each is not None]
    if not times or len(times) < len(found):
        return None
    return Behind(max(each.ms for each in times), any(each.at_least for each in times))


def partition_behind(
    known: GroupHistory | None, item: Mapping[str, Any], now_ms: int
) -> Behind | None:
    """Return the lag in time in one partition.

    :param item: the partition's row of ``groups describe``.
    """
    if item["lag"] is None or item["offset"] is None:
        return None
    if item["lag"] == 0:
        return Behind(0, at_least=False)
    if known is None:
        return None
    history = known.partitions.get(TopicPartition(item["topic"], item["partition"]))
    return None if history is None else history.behind(now_ms, item["offset"])


async def show(visit: Visit) -> Page:
    """Show the groups that the address asks for."""
    chosen = filter_of(visit.query, visit.number("page", 1, least=1, most=1_000_000))
    seen, history, now_ms = visit.seen, visit.console.history, visit.now_ms

    def lag(group: str) -> float | None:
        known = history.of(group)
        return None if known is None else known.lag.latest

    rows = chosen_rows(seen, chosen)
    part = part_of(ordered(rows, chosen.sort, lag), chosen.page, PAGE_ROWS)
    names = [row["group"] for row in part.items]
    for name in reversed(names):
        history.look_at(name, now_ms)
    answer = None
    if names:
        answer = await described_groups(visit.admin, names, timeout_ms=ANSWER_MS)
    view = Groups(
        group_rows(part.items, answer, history, now_ms),
        len(rows),
        part.first,
        part.number,
        part.pages,
        chosen,
        seen.groups.value is not None,
        tuple(seen.groups.missing),
    )
    document = Answer({"groups": rows}, seen.groups.missing)
    return Page("Groups", "groups.html", view, chosen.command, document, seen.groups.asked_ms)


PAGES = (PageRoute(ADDRESS, show),)
