"""Transactions are shown that are open, that are ending or that hang, and all ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog import TopicPartition
from oncelog.admin.transaction_results import TRANSACTION_STATES
from oncelog.admin.transactions import TRANSACTION_TIMEOUT_MS_MAX
from oncelog_cli.documents.answer import Answer, Failure, Row
from oncelog_cli.documents.held_back import HeldBackRecords, KnownGroups, held_back, waiting_groups
from oncelog_cli.documents.transaction_partitions import PARTITIONS_MAX, partitions_of
from oncelog_cli.documents.transactions import (
    described_transactions,
    hanging_transactions,
    listed_transactions,
)
from oncelog_cli.group_offsets import duration_ms
from oncelog_console import commands
from oncelog_console.chart import bar
from oncelog_console.commands import Command
from oncelog_console.filters import ALL_NAMES, NameFilter, name_filter
from oncelog_console.listing import address_with, part_of
from oncelog_console.page import ANSWER_MS, BadRequestError, Page, PageRoute, Visit
from oncelog_console.pages.groups import why_of
from oncelog_console.rendering import duration_text
from oncelog_console.snapshot import Snapshot
from oncelog_console.svg import Picture

PAGE_ROWS = 50
ADDRESS = "/transactions"
TABS: Mapping[str, tuple[str, ...]] = {
    "open": ("Ongoing",),
    "ending": ("PrepareCommit", "PrepareAbort"),
    "hanging": (),
    "all": (),
}
"""The tabs, with the states that they show; () shows all."""
WARN_FROM = 0.8
"""From this share of its time-out on, a transaction is soon aborted."""


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """It says which transactions are shown."""

    tab: str = "open"
    name: NameFilter = ALL_NAMES
    older: str = ""
    """Only those that have been open for so long, as ``--older-than`` takes it."""
    page: int = 1
    look: bool = False
    """Whether to look now for those that hang: all leaders are asked for that."""

    def address(self, **changed: object) -> str:
        """Return the address of the page with some of this changed."""
        fields = {
            "tab": "" if self.tab == "open" else self.tab,
            "q": self.name.text,
            "older": self.older,
            "look": "1" if self.look else "",
            "page": "" if self.page == 1 else str(self.page),
        }
        return address_with(ADDRESS, fields, changed)

    @property
    def command(self) -> Command:
        """Return the command that shows the same; it knows no pages."""
        if self.tab == "hanging":
            return commands.command("transactions find-hanging")
        return commands.command(
            "transactions list",
            *self.name.patterns,
            regex=self.name.is_set,
            state=TABS[self.tab],
            older_than=self.older or None,
        )


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """An id has its rows of ``transactions list`` and ``describe``, its age, and what it holds."""

    listed: Mapping[str, Any]
    described: Mapping[str, Any] | None
    """None: its coordinator did not say."""
    why: str
    """Why it did not."""
    age_ms: int | None
    """None: nothing is open, or it is not known."""
    picture: Picture
    """The age as a part of the time-out."""
    holds_back: int | None
    """Records between last stable offset and high watermark in its partitions; None: not known."""
    waits: tuple[str, ...]
    """These groups wait for them."""


@dataclass(frozen=True, slots=True)
class HangingRow:
    """One that hangs has its row of ``transactions find-hanging``, and the command that ends it."""

    row: Mapping[str, Any]
    abort: Command


@dataclass(frozen=True, slots=True)
class TransactionsView:
    """The view holds what the page shows."""

    chosen: TransactionFilter
    rows: tuple[TransactionRow, ...]
    hanging: tuple[HangingRow, ...]
    count: int
    first: int
    page: int
    pages: int
    known: bool
    """Whether ids were ever listed, or those that hang were looked for."""
    groups_not_asked: int
    """So many groups may wait too."""
    missing: tuple[Failure, ...]
    """Brokers that did not say which ids they have, and partitions that could not be looked at."""
    tabs: tuple[str, ...] = tuple(TABS)


def filter_of(query: Mapping[str, str], page: int) -> TransactionFilter:
    """Return what an address asks for.

    :raises BadRequestError: a tab, a duration or an expression that there is not.
    """
    tab, older = query.get("tab", "") or "open", query.get("older", "").strip()
    if tab not in TABS:
        raise BadRequestError(f"tab={tab!r}: there are {', '.join(TABS)}")
    if older:
        try:
            duration_ms(older)
        except ValueError as error:
            raise BadRequestError(str(error)) from None
    name = name_filter(query.get("q", ""))
    return TransactionFilter(tab, name, older, page, bool(query.get("look")))


def chosen_rows(
    rows: Iterable[Mapping[str, Any]], chosen: TransactionFilter
) -> list[Mapping[str, Any]]:
    """Return the rows of ``transactions list`` that are chosen, in the order of the command."""
    states = TABS[chosen.tab] or TRANSACTION_STATES
    return [
        row for row in rows if row["state"] in states and chosen.name.fits(row["transactional_id"])
    ]


def transaction_rows(
    rows: Sequence[Mapping[str, Any]],
    answer: Answer | None,
    held: Mapping[TopicPartition, HeldBackRecords],
    groups: Iterable[Row],
    now_ms: int,
) -> tuple[TransactionRow, ...]:
    """Return the rows of a page.

    :param answer: the document of ``transactions describe`` of these ids.
    :param held: what partitions hold back, where it was asked.
    :param groups: rows of ``groups describe``.
    """
    documents = () if answer is None else answer.document["transactions"]
    described = {row["transactional_id"]: row for row in documents}
    waits = waiting_groups(groups, held)
    found = []
    for row in rows:
        name = row["transactional_id"]
        known = described.get(name)
        age_ms = age_of(known, now_ms)
        why = "" if known is not None else why_of(answer, name)
        partitions = [] if known is None else partitions_of(known)
        holds = None if known is None else held_by(partitions, held)
        names = tuple(sorted({group for tp in partitions for group in waits.get(tp, ())}))
        found.append(TransactionRow(row, known, why, age_ms, age_bar(known, age_ms), holds, names))
    return tuple(found)


def age_of(described: Mapping[str, Any] | None, now_ms: int) -> int | None:
    """Return how long a transaction has been open; None: nothing is open, or it is not known."""
    if described is None or described["start_ms"] is None:
        return None
    return max(now_ms - int(described["start_ms"]), 0)


def age_bar(described: Mapping[str, Any] | None, age_ms: int | None) -> Picture:
    """Return the age of a transaction as a part of its time-out."""
    if described is None:
        return bar("not known", None)
    timeout_ms = described["timeout_ms"]
    if age_ms is None or not timeout_ms:
        return bar("nothing is open", 0)
    title = f"open for {duration_text(age_ms)} of {duration_text(timeout_ms)}"
    return bar(title, age_ms / timeout_ms, warn_from=WARN_FROM)


def held_by(
    partitions: Collection[TopicPartition], held: Mapping[TopicPartition, HeldBackRecords]
) -> int | None:
    """Return what partitions hold back together; None: it is not known of one of them."""
    total = 0
    for tp in partitions:
        count = held[tp].records if tp in held else None
        if count is None:
            return None
        total += count
    return total


def groups_of(seen: Snapshot) -> KnownGroups:
    """Return what the poller knows of how far groups have come: it asks only some, all the time."""
    answer = seen.described_groups.value
    rows = [] if answer is None else answer.document["groups"]
    return KnownGroups(rows, max(len(seen.group_rows) - len(rows), 0))


async def show(visit: Visit) -> Page:
    """Show the transactions that the address asks for."""
    chosen = filter_of(visit.query, visit.number("page", 1, least=1, most=1_000_000))
    if chosen.tab == "hanging":
        return await show_hanging(visit, chosen)
    fact, seen = visit.seen.transactions, visit.seen.transaction_rows
    asked_ms, missing = fact.asked_ms, tuple(fact.missing)
    if chosen.older:  # Lists have no ages: coordinators are asked.
        aged = await listed_transactions(visit.admin, older_than_ms=duration_ms(chosen.older))
        seen, asked_ms = aged.document["transactions"], visit.now_ms
        missing = tuple(aged.failures)
    rows = chosen_rows(seen, chosen)
    part = part_of(rows, chosen.page, PAGE_ROWS)
    names = [row["transactional_id"] for row in part.items]
    answer, held, groups = None, {}, groups_of(visit.seen)
    if names:
        answer = await described_transactions(visit.admin, names, timeout_ms=ANSWER_MS)
        documents = answer.document["transactions"]
        wanted = sorted({tp for row in documents for tp in partitions_of(row)})[:PARTITIONS_MAX]
        held = await held_back(visit.admin, wanted, timeout_ms=ANSWER_MS)
    view = TransactionsView(
        chosen,
        transaction_rows(part.items, answer, held, groups.rows, visit.now_ms),
        (),
        len(rows),
        part.first,
        part.number,
        part.pages,
        fact.value is not None or bool(chosen.older),
        groups.not_asked,
        missing,
    )
    document = Answer({"transactions": rows}, missing)
    return Page("Transactions", "transactions.html", view, chosen.command, document, asked_ms)


async def show_hanging(visit: Visit, chosen: TransactionFilter) -> Page:
    """Show those that hang, as of the last search of the console, or by one that is wanted now."""
    fact = visit.seen.hanging
    answer, asked_ms = fact.value, fact.asked_ms
    if chosen.look:
        asked_ms = visit.now_ms
        answer = await hanging_transactions(visit.admin, max_timeout_ms=TRANSACTION_TIMEOUT_MS_MAX)
    rows = tuple(
        HangingRow(row, abort_command(row))
        for row in (() if answer is None else answer.document["transactions"])
    )
    view = TransactionsView(
        chosen,
        (),
        rows,
        len(rows),
        1,
        1,
        1,
        answer is not None,
        0,
        () if answer is None else tuple(answer.failures),
    )
    return Page(
        "Transactions",
        "transactions.html",
        view,
        chosen.command,
        answer,
        asked_ms,
    )


def abort_command(row: Mapping[str, Any]) -> Command:
    """Return the command that ends a transaction that hangs."""
    line = commands.abort_transaction(
        row["topic"], row["partition"], row["producer_id"], row["start_offset"]
    )
    return line.words


PAGES = (PageRoute(ADDRESS, show),)
