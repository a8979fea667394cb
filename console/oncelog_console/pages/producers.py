"""Partitions tell what they know of producers, for one topic or for some partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.producers import described_producers
from oncelog_cli.group_offsets import Chosen, parse_partitions
from oncelog_console import commands
from oncelog_console.commands import Command
from oncelog_console.listing import address_with, part_of
from oncelog_console.page import ANSWER_MS, BadRequestError, Page, PageRoute, Visit
from oncelog_console.snapshot import Snapshot

PAGE_ROWS = 200
ADDRESS = "/producers"
EVERYWHERE = ".*"
"""All topics that are not the cluster's own."""


@dataclass(frozen=True, slots=True)
class ProducersAsked:
    """An address asks for the producers of this."""

    topic: str = ""
    """A topic, or ``topic:0,2`` for some of its partitions; "": nothing was chosen yet."""
    only_open: bool = False
    producer_id: int | None = None
    page: int = 1

    @property
    def is_asked(self) -> bool:
        """Return whether anything is to be asked: a producer alone is looked for everywhere."""
        return bool(self.topic) or self.producer_id is not None

    @property
    def where(self) -> Chosen | list[str]:
        """Return the topics and partitions that are meant, or an expression for all topics.

        :raises BadRequestError: the text names none.
        """
        if not self.topic:
            return [EVERYWHERE]
        try:
            return parse_partitions([self.topic])
        except ValueError as error:
            raise BadRequestError(str(error)) from None

    @property
    def command(self) -> Command:
        """Return the command that shows the same."""
        if not self.is_asked:
            return ()
        return commands.command(
            "producers describe",
            self.topic or EVERYWHERE,
            regex=not self.topic,
            open=self.only_open,
            producer_id=self.producer_id,
        )

    def address(self, **changed: object) -> str:
        """Return the address of the page with some of this changed."""
        fields = {
            "topic": self.topic,
            "open": "1" if self.only_open else "",
            "producer_id": "" if self.producer_id is None else str(self.producer_id),
            "page": "" if self.page == 1 else str(self.page),
        }
        return address_with(ADDRESS, fields, changed)


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """A producer in one partition has its row of ``producers describe``, and whose it is."""

    row: Mapping[str, Any]
    transactional_id: str | None
    """None: no coordinator has told of an id with this producer."""


@dataclass(frozen=True, slots=True)
class ProducersView:
    """The view holds what the page shows."""

    asked: ProducersAsked
    rows: tuple[ProducerRow, ...]
    """Those of this page: open transactions first."""
    count: int
    pages: int
    failures: tuple[Failure, ...]
    topics: tuple[str, ...]
    """Topics that can be chosen."""


def producers_of(asked: ProducersAsked, answer: Answer | None, seen: Snapshot) -> ProducersView:
    """Return the view of producers.

    :param answer: the document of ``producers describe``; None: nothing was asked.
    """
    rows = [] if answer is None else answer.document["producers"]
    ids = ids_of(seen)
    found = [ProducerRow(row, ids.get(row["producer_id"])) for row in rows]
    found.sort(
        key=lambda item: (
            item.row["txn_start_offset"] is None,
            item.row["topic"],
            item.row["partition"],
            item.row["producer_id"],
        )
    )
    part = part_of(found, asked.page, PAGE_ROWS)
    return ProducersView(
        replace(asked, page=part.number),
        part.items,
        len(found),
        part.pages,
        () if answer is None else tuple(answer.failures),
        tuple(sorted(topic.topic for topic in seen.topic_list if not topic.internal)),
    )


def ids_of(seen: Snapshot) -> dict[int, str]:
    """Return the transactional ids of producers, as far as coordinators have told."""
    return {
        row["producer_id"]: row["transactional_id"]
        for row in seen.transaction_rows
        if row["producer_id"] is not None
    }


async def show(visit: Visit) -> Page:
    """Show the producers that the address asks for."""
    query = visit.query
    asked = ProducersAsked(
        query.get("topic", "").strip(),
        bool(query.get("open")),
        visit.number("producer_id", 0) if query.get("producer_id", "").strip() else None,
        visit.number("page", 1, least=1, most=1_000_000),
    )
    answer = None
    if asked.is_asked:
        answer = await described_producers(
            visit.admin,
            asked.where,
            only_open=asked.only_open,
            producer_ids=() if asked.producer_id is None else (asked.producer_id,),
            timeout_ms=ANSWER_MS,
        )
    return Page(
        "Producers",
        "producers.html",
        producers_of(asked, answer, visit.seen),
        asked.command,
        answer,
        None if answer is None else visit.now_ms,
    )


PAGES = (PageRoute(ADDRESS, show),)
