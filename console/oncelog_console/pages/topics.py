"""All topics are shown, filtered, sorted and a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from oncelog_cli.documents.answer import Answer
from oncelog_cli.documents.topics import topic_row
from oncelog_console.filters import ALL_NAMES, NameFilter, name_filter
from oncelog_console.page import BadRequestError, Command, Page, PageRoute, Visit
from oncelog_console.snapshot import Rate, Snapshot

PAGE_ROWS = 100
ALL = "all"
STATES = {
    "under_replicated": "--under-replicated",
    "leaderless": "--unavailable",
    "under_min_isr": "--under-min-isr",
    "at_min_isr": "--at-min-isr",
}
"""A filter by state is a field that is not 0, and an option of the command."""
SORTS = ("topic", "partition_count", "size_bytes", "rate", "replication_factor")


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """It says which topics are shown, and in which order."""

    name: NameFilter = ALL_NAMES
    state: str = ""
    internal: bool = False
    sort: str = "topic"
    """A field, with "-" before it for the largest first."""
    page: int = 1
    whole: bool = False
    """Whether all are on one page."""

    def address(self, **changed: object) -> str:
        """Return the address of the page with some of this changed."""
        fields = {
            "q": self.name.text,
            "state": self.state,
            "internal": "1" if self.internal else "",
            "sort": "" if self.sort == "topic" else self.sort,
            "page": "" if self.page == 1 else str(self.page),
            "all": "1" if self.whole else "",
        }
        fields.update({name: str(value) for name, value in changed.items()})
        said = {name: value for name, value in fields.items() if value}
        return "/topics" + (f"?{urlencode(said)}" if said else "")

    @property
    def command(self) -> Command:
        """Return the command that lists the same topics; it knows no order and no pages."""
        words = ["topics", "list", *self.name.words]
        if self.internal:
            words.append("--internal")
        if self.state:
            words.append(STATES[self.state])
        return tuple(words)


@dataclass(frozen=True, slots=True)
class TopicList:
    """The view holds what the page shows."""

    rows: tuple[dict[str, Any], ...]
    """Rows of ``topics list``, with ``size_bytes`` and ``rate`` (None: not known)."""
    count: int
    first: int
    """Number of the first row of this page, from 1."""
    pages: int
    chosen: TopicFilter
    known: bool
    """Whether topics were ever told; else there are none for another reason."""
    states: tuple[str, ...] = tuple(STATES)


def filter_of(query: Mapping[str, str], page: int) -> TopicFilter:
    """Return what an address asks for.

    :raises BadRequestError: a state, an order or an expression that there is not.
    """
    name, state = name_filter(query.get("q", "")), query.get("state", "")
    sort = query.get("sort", "") or "topic"
    if state and state not in STATES:
        raise BadRequestError(f"state={state!r}: there are {', '.join(STATES)}")
    if sort.removeprefix("-") not in SORTS:
        raise BadRequestError(f"sort={sort!r}: there are {', '.join(SORTS)}")
    return TopicFilter(name, state, bool(query.get("internal")), sort, page, bool(query.get("all")))


def rows_of(seen: Snapshot, chosen: TopicFilter) -> list[dict[str, Any]]:
    """Return the rows of ``topics list`` that are chosen, in the order of the command."""
    min_isr = seen.min_isr.value or {}
    found = []
    for topic in sorted(seen.topic_list, key=lambda topic: topic.topic):
        if topic.internal and not (chosen.internal or chosen.name.text):
            continue
        if chosen.name.fits(topic.topic):
            row = topic_row(topic, min_isr)
            if not chosen.state or row[chosen.state]:
                found.append(row)
    return found


def topics_of(seen: Snapshot, chosen: TopicFilter) -> tuple[TopicList, list[dict[str, Any]]]:
    """Return the view of a page, and all rows that the filter lets through."""
    rows = rows_of(seen, chosen)
    sizes = sizes_of(seen)
    full = [
        {
            **row,
            "size_bytes": None if sizes is None else sizes.get(row["topic"]),
            "rate": seen.rates.get(row["topic"]),
        }
        for row in rows
    ]
    _sort(full, chosen.sort)
    pages = max(1, -(-len(full) // PAGE_ROWS))
    page = min(chosen.page, pages)
    first = 0 if chosen.whole else (page - 1) * PAGE_ROWS
    shown = full if chosen.whole else full[first : first + PAGE_ROWS]
    known = seen.topics.value is not None
    return TopicList(tuple(shown), len(full), first + 1, pages, chosen, known), rows


def _sort(rows: list[dict[str, Any]], sort: str) -> None:
    name = sort.removeprefix("-")

    def key(row: dict[str, Any]) -> Any:
        value = row[name]
        if isinstance(value, Rate):
            return value.records
        return -1 if value is None else value

    rows.sort(key=key, reverse=sort.startswith("-"))


def sizes_of(seen: Snapshot) -> dict[str, int] | None:
    """Return the bytes of all replicas by topic; None: nobody has said."""
    if seen.log_dirs.value is None:
        return None
    sizes: dict[str, int] = {}
    for item in seen.log_dirs.value:
        for replica in item.replicas:
            name = replica.partition.topic
            sizes[name] = sizes.get(name, 0) + replica.size_bytes
    return sizes


async def show(visit: Visit) -> Page:
    """Show the topics that the address asks for."""
    chosen = filter_of(visit.query, visit.number("page", 1, least=1, most=1_000_000))
    seen = visit.seen
    view, rows = topics_of(seen, chosen)
    asked = [seen.topics.asked_ms, seen.log_dirs.asked_ms]
    return Page(
        "Topics",
        "topics.html",
        view,
        chosen.command,
        Answer({"topics": rows}),
        asked_ms=oldest(asked),
    )


def oldest(times_ms: Sequence[int | None]) -> int | None:
    """Return the oldest of some times; those that are not known do not count."""
    return min((each for each in times_ms if each is not None), default=None)


PAGES = (PageRoute("/topics", show),)
