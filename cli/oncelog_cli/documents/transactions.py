"""Transactions are listed, described and ended here, and those that hang are found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Document, Failures, Row, fields_of, waiting
from oncelog_cli.documents.names import ids_named
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen, partitions_text
from oncelog_cli.patterns import among

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition
    from oncelog.admin.transaction_results import HangingTransaction, TransactionDescription


async def listed_transactions(
    admin: Admin,
    patterns: Sequence[str] | None = None,
    *,
    regex: bool = False,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    older_than_ms: int | None = None,
) -> Answer:
    """Return the document of ``transactions list``: a row a transactional id.

    Brokers that did not say which ids they have are failures.

    :param older_than_ms: only ids with a transaction that has been open for so long.
    :raises ConfigurationError: there is no such state.
    """
    failures = Failures()
    listed = failures.answered(
        await admin.list_transactions(
            states=states, producer_ids=producer_ids, older_than_ms=older_than_ms
        )
    )
    wanted = among([item.transactional_id for item in listed], patterns, regex=regex)
    rows = [
        {
            **fields_of(item, "transactional_id state producer_id shared"),
            "kind": "shared" if item.shared else "ordinary",
            "coordinator": item.coordinator,
        }
        for item in listed
        if item.transactional_id in wanted
    ]
    return Answer({"transactions": rows}, failures)


async def described_transactions(
    admin: Admin, patterns: Sequence[str], *, regex: bool = False, timeout_ms: int | None = None
) -> Answer:
    """Return the document of ``transactions describe``: a row an id; times in ms since 1970.

    Ids that cannot be described are failures.

    :param timeout_ms: None: as long as the admin client waits.
    :raises CommandError: no id is meant.
    """
    failures = Failures()
    names = await ids_named(admin, patterns, failures, regex=regex)
    rows = await _described(admin, names, failures, timeout_ms)
    return Answer({"transactions": rows}, failures)


async def listed_shared(
    admin: Admin, patterns: Sequence[str] | None = None, *, regex: bool = False
) -> Answer:
    """Return the document of ``shared list``: a row, as when described, an id of shared ones.

    Brokers that did not say which ids they have are failures.
    """
    failures = Failures()
    listed = failures.answered(await admin.list_transactions())
    shared = [item.transactional_id for item in listed if item.shared]
    names = among(shared, patterns, regex=regex)
    return Answer({"transactions": await _described(admin, names, failures)}, failures)


async def described_shared(admin: Admin, patterns: Sequence[str], *, regex: bool = False) -> Answer:
    """Return the document of ``shared describe``; ids of another kind that are named are failures.

    :raises CommandError: no id of shared transactions is meant.
    """
    failures = Failures()
    names = await ids_named(admin, patterns, failures, regex=regex)
    rows = await _described(admin, names, failures)
    shared = [row for row in rows if row["shared"]]
    for row in rows:
        if not row["shared"] and not regex:
            failures.fail(row["transactional_id"], "it is no id of shared transactions")
    if not shared and not failures:
        raise CommandError(f"no shared transaction matches {' or '.join(patterns)}")
    return Answer({"transactions": shared}, failures)


async def _described(
    admin: Admin, names: Sequence[str], failures: Failures, timeout_ms: int | None = None
) -> list[Row]:
    described = await admin.describe_transactions(names, **waiting(timeout_ms)) if names else ()
    return [_row(item) for item in failures.sound(described, lambda item: item.transactional_id)]


def _row(item: TransactionDescription) -> Row:
    return {
        **fields_of(item, "transactional_id state coordinator producer_id producer_epoch"),
        **fields_of(item, "timeout_ms start_ms"),
        **_partitions(item.partitions),
        **fields_of(item, "shared ordinal tag last_committed_tag"),
        "writer_count": len(item.writers),
        "writers": [
            {**fields_of(writer, "writer producer_id"), **_partitions(writer.partitions)}
            for writer in item.writers
        ],
    }


def _partitions(partitions: Iterable[TopicPartition]) -> Row:
    named = sorted(partitions)
    return {
        "partitions": [tp._asdict() for tp in named],
        "partition_names": partitions_text(named) or None,
    }


# ------------------------------------------------------------------------------ those that hang


async def hanging_transactions(
    admin: Admin,
    chosen: Chosen | None = None,
    *,
    broker: int | None = None,
    max_timeout_ms: int,
) -> Answer:
    """Return the document of ``transactions find-hanging``: a row a partition and producer.

    Failures are partitions that could not be looked at, and coordinators that could not be asked,
    if because of them more may hang.

    :param chosen: only there; else in the whole cluster.
    :param broker: only in partitions that it leads.
    :param max_timeout_ms: what was silent for longer may hang.
    """
    from oncelog import TopicPartition

    failures = Failures()
    found = await admin.find_hanging_transactions(
        None if chosen is None else [TopicPartition(*item) for item in chosen.partitions],
        topics=None if chosen is None else chosen.topics,
        broker_id=broker,
        max_transaction_timeout_ms=max_timeout_ms,
    )
    for error in found.errors:
        failures.fail("", error)
    if found.undecided:
        failures.answered(found)
        count = len(found.undecided)
        failures.fail("", f"{count} more may hang: not all coordinators could be asked")
    return Answer({"transactions": [_hanging(item) for item in found]}, failures)


def _hanging(item: HangingTransaction) -> Row:
    producer = "producer_id producer_epoch last_timestamp_ms coordinator_epoch"
    return {
        **item.partition._asdict(),
        "start_offset": item.start_offset,
        **fields_of(item.producer, producer),
        "transactional_id": item.transactional_id,
    }


async def aborted_transaction(
    admin: Admin,
    partition: TopicPartition,
    *,
    producer_id: int | None = None,
    start_offset: int | None = None,
    dry_run: bool = False,
) -> Document:
    """Abort what is open in a partition, and return the document of ``transactions abort``.

    The ``transactional_id`` of ``aborted`` is that whose coordinator ended it; None: a marker in
    this partition did.

    :raises OncelogError: there is no such transaction, or it could not be ended.
    """
    aborted = await admin.abort_transaction(
        partition, producer_id=producer_id, start_offset=start_offset, validate_only=dry_run
    )
    ended = fields_of(aborted, "producer_id producer_epoch transactional_id")
    return {"dry_run": dry_run, "aborted": {**partition._asdict(), **ended}}


# ------------------------------------------------------------------------------ fencing


async def doomed_producers(admin: Admin, patterns: Sequence[str], *, regex: bool = False) -> Answer:
    """Return what ``transactions fence --dry-run`` prints: a row for each id that would be fenced.

    An id that is not known is a failure: it would come to be by fencing it.

    :raises CommandError: no id is meant.
    """
    failures = Failures()
    names = await ids_named(admin, patterns, failures, regex=regex)
    rows = [
        {"transactional_id": row["transactional_id"], "fenced": False}
        for row in await _described(admin, names, failures)
    ]
    return Answer({"dry_run": True, "transactions": rows}, failures)


async def fenced_producers(admin: Admin, names: Sequence[str]) -> Answer:
    """Abort what is open of ids and shut their producers out; return what the command prints."""
    failures = Failures()
    rows = []
    for each in await admin.fence_producers(names):
        fenced = fields_of(each, "producer_id producer_epoch")
        row = {"transactional_id": each.transactional_id, "fenced": False, **fenced}
        rows.append(failures.outcome(row, "fenced", each.transactional_id, each.error))
    return Answer({"dry_run": False, "transactions": rows}, failures)
