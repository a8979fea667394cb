"""One transactional id is shown on its path, with the partitions that have their marker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from oncelog import TopicPartition
from oncelog_cli.documents.answer import Failure, Row
from oncelog_cli.documents.transaction_partitions import with_partitions
from oncelog_cli.documents.transactions import described_transactions
from oncelog_console import commands
from oncelog_console.page import ANSWER_MS, NotFoundError, Page, PageRoute, Visit
from oncelog_console.pages.group import leaders_of
from oncelog_console.pages.transactions import age_bar, age_of, groups_of
from oncelog_console.svg import Picture
from oncelog_protocol.errors import (
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
)

COMMIT = ("Empty", "Ongoing", "PrepareCommit", "CompleteCommit")
ABORT = ("Empty", "Ongoing", "PrepareAbort", "CompleteAbort")
MEANINGS: Mapping[str, str] = {
    "Empty": "nothing was written yet",
    "Ongoing": "records are written, and held back from readers at read_committed",
    "PrepareCommit": "it is decided: markers go to the partitions",
    "PrepareAbort": "it is decided: markers go to the partitions",
    "CompleteCommit": "every partition has its marker: the records are visible",
    "CompleteAbort": "every partition has its marker: the records are never visible",
}

Place = Literal["before", "here", "after"]


@dataclass(frozen=True, slots=True)
class PathStep:
    """A step is one state of the path; the transaction has passed it or not."""

    state: str
    place: Place
    meaning: str


@dataclass(frozen=True, slots=True)
class PartitionMark:
    """The transaction stands so in one partition."""

    partition: TopicPartition
    row: Row
    """It is one of ``in_partitions``."""
    leader: int | None
    """None: nobody leads, or it is not known who does."""
    why: str
    """Why it is not known how it stands."""


@dataclass(frozen=True, slots=True)
class TransactionView:
    """The view holds what the page shows."""

    transactional_id: str
    described: Mapping[str, Any] | None
    """Its row of ``transactions describe --partitions``; None: its coordinator did not say."""
    listed: Mapping[str, Any] | None
    """Its row of ``transactions list``, which may be older."""
    failures: tuple[Failure, ...]
    path: tuple[PathStep, ...]
    age_ms: int | None
    picture: Picture
    marks: tuple[PartitionMark, ...]
    groups_not_asked: int
    """So many groups may wait too."""
    waits_for: tuple[int, ...]
    """These leaders have not written a marker that is on its way."""


def path_of(state: str) -> tuple[PathStep, ...]:
    """Return the path to a commit, or to an abort where it goes there, and where it is on it."""
    path = ABORT if state in ABORT[2:] else COMMIT
    here = path.index(state) if state in path else -1
    return tuple(
        PathStep(
            name,
            "after" if here < 0 or number > here else "here" if number == here else "before",
            MEANINGS[name],
        )
        for number, name in enumerate(path)
    )


def marks_of(
    rows: Iterable[Row], failures: Iterable[Failure], leaders: Mapping[TopicPartition, int]
) -> tuple[PartitionMark, ...]:
    """Return how a transaction stands in each of its partitions.

    :param rows: its ``in_partitions``.
    :param failures: those of the document: partitions of which nothing is known are named there.
    """
    failed = {each.item: each.message for each in failures}
    found = []
    for row in rows:
        tp = TopicPartition(row["topic"], row["partition"])
        why = failed.get(str(tp), "nobody was asked") if row["open"] is None else ""
        found.append(PartitionMark(tp, row, leaders.get(tp), why))
    return tuple(found)


def waits_for(described: Mapping[str, Any], marks: Iterable[PartitionMark]) -> tuple[int, ...]:
    """Return the leaders whose markers are on their way; there are none before the end."""
    if not str(described["state"]).startswith("Prepare"):
        return ()
    return tuple(
        sorted({m.leader for m in marks if m.row["marked"] is not True and m.leader is not None})
    )


async def show(visit: Visit) -> Page:
    """Show one transactional id."""
    name = visit.named("id")
    answer = await described_transactions(visit.admin, [name], timeout_ms=ANSWER_MS)
    for failure in answer.failures:
        if isinstance(failure.error, TransactionalIdAuthorizationFailedError):
            raise failure.error
        if isinstance(failure.error, TransactionalIdNotFoundError):
            raise NotFoundError(f"no coordinator knows the transactional id {name!r}")
    coordinator_failures = tuple(answer.failures)
    answer = await with_partitions(visit.admin, answer, groups_of(visit.seen), timeout_ms=ANSWER_MS)
    described = next(iter(answer.document["transactions"]), None)
    rows = [] if described is None else described["in_partitions"]
    marks = marks_of(rows, answer.failures, leaders_of(visit.seen))
    listed = next(
        (row for row in visit.seen.transaction_rows if row["transactional_id"] == name), None
    )
    state = (described or listed or {"state": ""})["state"]
    age_ms = age_of(described, visit.now_ms)
    view = TransactionView(
        name,
        described,
        listed,
        coordinator_failures,
        path_of(state),
        age_ms,
        age_bar(described, age_ms),
        marks,
        answer.document["groups_not_asked"],
        () if described is None else waits_for(described, marks),
    )
    words = commands.command("transactions describe", name, partitions=True)
    asked_ms = visit.now_ms if described is not None else visit.seen.transactions.asked_ms
    return Page(name, "transaction.html", view, words, answer, asked_ms)


PAGES = (PageRoute("/transactions/{id:path}", show),)
