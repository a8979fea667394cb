"""All topics are shown, filtered, sorted and a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.admin.results import TopicDescription
from oncelog_cli.documents.answer import Answer
from oncelog_cli.documents.topics import topic_row
from oncelog_console import commands
from oncelog_console.chart import trend_line
from oncelog_console.commands import Command
from oncelog_console.filters import ALL_NAMES, NameFilter, name_filter
from oncelog_console.listing import address_with, part_of
from oncelog_console.page import BadRequestError, Page, PageRoute, Visit
from oncelog_console.snapshot import Snapshot

PAGE_ROWS = 100
STATES = {
    "under_replicated": "under_replicated",
    "leaderless": "unavailable",
    "under_min_isr": "under_min_isr",
    "at_min_isr": "at_min_isr",
}
"""A filter by state is a field that is not 0, and a flag of the command."""
SORTS = ("topic", "partition_count", "size_bytes", "rate", "replication_factor")
"""Fields that topics are sorted by."""


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
        return address_with("/topics", fields, changed)

    @property
    def command(self) -> Command:
        """Return the command that lists the same topics; it knows no order and no pages."""
        flags = {STATES[self.state]: True} if self.state else {}
        return commands.command(
            "topics list",
            *self.name.patterns,
            regex=self.name.is_set,
            internal=self.internal,
            **flags,
        )


@dataclass(frozen=True, slots=True)
class TopicList:
    """The view holds what the page shows."""

    rows: tuple[dict[str, Any], ...]
    """Rows of ``topics list``, with ``size_bytes`` and ``rate`` (None: not known); ``picture``
    shows how the rate was."""
    count: int
    first: int
    """Number of the first row of this page, from 1."""
    page: int
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


def topics_that_fit(seen: Snapshot, chosen: TopicFilter) -> list[TopicDescription]:
    """Return the topics that are chosen, in the order of the command."""
    min_isr = seen.min_isr.value or {}
    return [
        topic
        for topic in sorted(seen.topic_list, key=lambda topic: topic.topic)
        if (chosen.internal or chosen.name.text or not topic.internal)
        and chosen.name.fits(topic.topic)
        and (not chosen.state or topic_row(topic, min_isr)[chosen.state])
    ]


def rows_of(seen: Snapshot, topics: Iterable[TopicDescription]) -> list[dict[str, Any]]:
    """Return the rows of ``topics list`` of some topics."""
    min_isr = seen.min_isr.value or {}
    return [topic_row(topic, min_isr) for topic in topics]


def topics_of(seen: Snapshot, chosen: TopicFilter) -> TopicList:
    """Return the view of a page; only what it shows is worked out."""
    fitting = topics_that_fit(seen, chosen)
    sizes = sizes_of(seen)
    fitting.sort(key=_key(chosen.sort, seen, sizes or {}), reverse=chosen.sort.startswith("-"))
    size = max(1, len(fitting)) if chosen.whole else PAGE_ROWS
    part = part_of(fitting, chosen.page, size)
    rows = tuple(
        {
            **row,
            "size_bytes": None if sizes is None else sizes.get(row["topic"]),
            "rate": seen.rates.get(row["topic"]),
            "picture": trend_line(
                f"records in of {row['topic']} at the last looks", _trend(seen, row["topic"])
            ),
        }
        for row in rows_of(seen, part.items)
    )
    known = seen.topics.value is not None
    return TopicList(rows, len(fitting), part.first, part.number, part.pages, chosen, known)


def _trend(seen: Snapshot, topic: str) -> Sequence[float]:
    rate = seen.rates.get(topic)
    return () if rate is None else rate.trend


def _key(
    sort: str, seen: Snapshot, sizes: Mapping[str, int]
) -> Callable[[TopicDescription], float | str]:
    """Return what topics are sorted by; what is not known is the least."""
    keys: dict[str, Callable[[TopicDescription], float | str]] = {
        "topic": lambda topic: topic.topic,
        "partition_count": lambda topic: len(topic.partitions),
        "replication_factor": lambda topic: max(
            (len(each.replicas) for each in topic.partitions), default=0
        ),
        "size_bytes": lambda topic: sizes.get(topic.topic, -1),
        "rate": lambda topic: (
            seen.rates[topic.topic].records if topic.topic in seen.rates else -1.0
        ),
    }
    return keys[sort.removeprefix("-")]


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
    asked = [seen.topics.asked_ms, seen.log_dirs.asked_ms]
    return Page(
        "Topics",
        "topics.html",
        topics_of(seen, chosen),
        chosen.command,
        Answer({"topics": rows_of(seen, topics_that_fit(seen, chosen))})
        if visit.wants_document
        else None,
        asked_ms=oldest(asked),
    )


def oldest(times_ms: Sequence[int | None]) -> int | None:
    """Return the oldest of some times; those that are not known do not count."""
    return min((each for each in times_ms if each is not None), default=None)


PAGES = (PageRoute("/topics", show),)
