"""One transactional id is shown on its path, with the partitions that have their marker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from oncelog import TopicPartition
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.producers import described_producers
from oncelog_cli.documents.transactions import described_transactions
from oncelog_cli.group_offsets import Chosen
from oncelog_console import commands
from oncelog_console.page import ANSWER_MS, NotFoundError, Page, PageRoute, Visit
from oncelog_console.pages.group import leaders_of
from oncelog_console.pages.transactions import (
    OFFSETS_MAX,
    age_bar,
    age_of,
    held_back,
    partitions_of,
)
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
MarkState = Literal["open", "ended", "unknown"]


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
    writer: str
    """This one writes there, in a shared transaction."""
    producer_id: int | None
    state: MarkState
    start_offset: int | None
    """It begins here, while it is open there."""
    leader: int | None
    """None: nobody leads, or it is not known who does."""
    holds_back: int | None
    why: str
    """Why the state is not known."""


@dataclass(frozen=True, slots=True)
class TransactionView:
    """The view holds what the page shows."""

    transactional_id: str
    described: Mapping[str, Any] | None
    """Its row of ``transactions describe``; None: its coordinator did not say."""
    listed: Mapping[str, Any] | None
    """Its row of ``transactions list``, which may be older."""
    failures: tuple[Failure, ...]
    path: tuple[PathStep, ...]
    age_ms: int | None
    picture: Picture
    marks: tuple[PartitionMark, ...]
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


def written_by(described: Mapping[str, Any]) -> list[tuple[TopicPartition, str, int | None]]:
    """Return each partition with who writes there: a name, of shared transactions, and an id."""
    if described["writers"]:
        return [
            (TopicPartition(row["topic"], row["partition"]), each["writer"], each["producer_id"])
            for each in described["writers"]
            for row in each["partitions"]
        ]
    return [(tp, "", described["producer_id"]) for tp in partitions_of(described)]


def marks_of(
    described: Mapping[str, Any],
    producers: Answer | None,
    held: Mapping[TopicPartition, int | None],
    leaders: Mapping[TopicPartition, int],
) -> tuple[PartitionMark, ...]:
    """Return how a transaction stands in each of its partitions.

    :param producers: the document of ``producers describe`` of these partitions.
    """
    rows: Iterable[Mapping[str, Any]] = () if producers is None else producers.document["producers"]
    begun = {
        (TopicPartition(row["topic"], row["partition"]), row["producer_id"]): row[
            "txn_start_offset"
        ]
        for row in rows
    }
    failed = {} if producers is None else {each.item: each.message for each in producers.failures}
    found = []
    for tp, writer, producer_id in written_by(described):
        why = failed.get(str(tp), "nobody was asked" if producers is None else "")
        start = begun.get((tp, producer_id)) if producer_id is not None else None
        state: MarkState = "unknown" if why else "ended" if start is None else "open"
        leader = leaders.get(tp)
        found.append(
            PartitionMark(tp, writer, producer_id, state, start, leader, held.get(tp), why)
        )
    return tuple(found)


def waits_for(described: Mapping[str, Any], marks: Iterable[PartitionMark]) -> tuple[int, ...]:
    """Return the leaders whose markers are on their way; there are none before the end."""
    if not str(described["state"]).startswith("Prepare"):
        return ()
    return tuple(
        sorted({each.leader for each in marks if each.state != "ended" and each.leader is not None})
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
    described = next(iter(answer.document["transactions"]), None)
    marks: tuple[PartitionMark, ...] = ()
    if described is not None and partitions_of(described):
        where = Chosen((), tuple(partitions_of(described)[:OFFSETS_MAX]))
        producers = await described_producers(visit.admin, where, timeout_ms=ANSWER_MS)
        held = await held_back(visit.admin, partitions_of(described))
        marks = marks_of(described, producers, held, leaders_of(visit.seen))
    listed = next(
        (row for row in visit.seen.transaction_rows if row["transactional_id"] == name), None
    )
    state = (described or listed or {"state": ""})["state"]
    age_ms = age_of(described, visit.now_ms)
    view = TransactionView(
        name,
        described,
        listed,
        tuple(answer.failures),
        path_of(state),
        age_ms,
        age_bar(described, age_ms),
        marks,
        () if described is None else waits_for(described, marks),
    )
    words = commands.command("transactions describe", name)
    asked_ms = visit.now_ms if described is not None else visit.seen.transactions.asked_ms
    return Page(name, "transaction.html", view, words, answer, asked_ms)


PAGES = (PageRoute("/transactions/{id:path}", show),)
