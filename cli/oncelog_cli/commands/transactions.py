"""``oncelog transactions`` has commands to list, describe, abort and fence, and finds what hangs.

Rules: an item that fails does not stop the others; each failure is a line on stderr, and the exit
code is then 1. A broker that could not say which transactional ids it has is such a failure too: a
list that may lack some never looks complete, and nothing is said to hang then. What ends something
asks first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.group_offsets import duration_ms, parse_partitions, partitions_text
from oncelog_cli.options import (
    DryRunOption,
    Format,
    IdsArgument,
    RegexOption,
    SomeIdsArgument,
    UsageError,
    YesOption,
    complete_topics,
    confirm,
    parsed,
)
from oncelog_cli.patterns import among, matching, some_found
from oncelog_cli.render import PARTITION_NAME, Column, Output, fields_of, human_time

if TYPE_CHECKING:
    from oncelog import Admin, TopicPartition
    from oncelog.admin.transaction_results import HangingTransaction, TransactionDescription

app = typed.App(help="List and describe transactions, find those that hang, and end them.")

ID_AND_STATE = (Column("TRANSACTIONAL ID", "transactional_id"), Column("STATE", "state"))
PRODUCER = (
    Column("PRODUCER", "producer_id", right=True),
    Column("EPOCH", "producer_epoch", right=True),
)
LIST_COLUMNS = (
    *ID_AND_STATE,
    PRODUCER[0],
    Column("KIND", "kind"),
    Column("COORDINATOR", "coordinator", right=True),
)
DESCRIBE_COLUMNS = (
    *ID_AND_STATE,
    *PRODUCER,
    Column("STARTED", "start_ms", show=human_time),
    Column("TIMEOUT MS", "timeout_ms", right=True),
    Column("PARTITIONS", "partition_names"),
    Column("COORDINATOR", "coordinator", right=True, wide=True),
)
SHARED_COLUMNS = (
    *ID_AND_STATE,
    Column("ORDINAL", "ordinal", right=True),
    Column("TAG", "tag", right=True),
    Column("LAST COMMITTED", "last_committed_tag", right=True),
    Column("WRITERS", "writer_count", right=True),
    Column("STARTED", "start_ms", show=human_time),
    Column("TIMEOUT MS", "timeout_ms", right=True),
    Column("PARTITIONS", "partition_names", wide=True),
    Column("COORDINATOR", "coordinator", right=True, wide=True),
)
WRITER_COLUMNS = (
    Column("WRITER", "writer"),
    PRODUCER[0],
    Column("PARTITIONS", "partition_names"),
)
HANGING_COLUMNS = (
    *PARTITION_NAME,
    Column("START OFFSET", "start_offset", right=True),
    *PRODUCER,
    Column("LAST WRITE", "last_timestamp_ms", show=human_time),
    Column("TRANSACTIONAL ID", "transactional_id"),
    Column("COORDINATOR EPOCH", "coordinator_epoch", right=True, wide=True),
)
ABORTED_COLUMNS = (*PARTITION_NAME, *PRODUCER, ID_AND_STATE[0])
FENCED_COLUMNS = (
    ID_AND_STATE[0],
    Column("FENCED", "fenced"),
    *PRODUCER,
    Column("ERROR", "error"),
)


# ------------------------------------------------------------------------------ list


@app.command("list")
def list_transactions(
    output: Output,
    cluster: NamedCluster,
    patterns: SomeIdsArgument = None,
    regex: RegexOption = False,
    state: Annotated[
        list[str] | None,
        typed.Option("--state", metavar="STATE", help="Only those in this state; repeatable."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typed.Option(
            "--producer-id", min=0, metavar="N", help="Only those of this producer; repeatable."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typed.Option(
            "--older-than",
            metavar="DURATION",
            help="Only those with a transaction that has been open for so long: 30s, 5m, PT1H.",
        ),
    ] = None,
) -> None:
    """List the transactional ids, with the states of their transactions.

    States are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit and CompleteAbort.
    """
    older_than_ms = None if older_than is None else parsed("--older-than", duration_ms, older_than)
    listed = cluster.ask(
        lambda admin: admin.list_transactions(
            states=state or (), producer_ids=producer_id or (), older_than_ms=older_than_ms
        )
    )
    names = [item.transactional_id for item in output.answered(listed)]
    wanted = among(names, patterns, regex=regex)
    rows = [
        {
            **fields_of(item, "transactional_id state producer_id shared"),
            "kind": "shared" if item.shared else "ordinary",
            "coordinator": item.coordinator,
        }
        for item in listed
        if item.transactional_id in wanted
    ]
    output.show(LIST_COLUMNS, {"transactions": rows})


async def _names(admin: Admin, patterns: Iterable[str], regex: bool, output: Output) -> list[str]:
    """Return the transactional ids that are meant.

    :raises CommandError: none is.
    """
    known: list[str] = []
    if regex:
        listed = output.answered(await admin.list_transactions())
        known = [item.transactional_id for item in listed]
    return some_found("transactional id", matching(known, patterns, regex=regex), patterns)


# ------------------------------------------------------------------------------ describe


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
    transactional_ids: IdsArgument,
    regex: RegexOption = False,
) -> None:
    """Show what transactional ids are doing: state, producer, age, partitions, writers."""
    documents = cluster.ask(
        lambda admin: described_transactions(admin, transactional_ids, regex, output)
    )
    show_transactions(documents, output)
    output.finish({"transactions": documents})


async def described_transactions(
    admin: Admin, patterns: Sequence[str], regex: bool, output: Output
) -> list[dict[str, Any]]:
    """Return one document a transactional id; those that failed are reported.

    :raises CommandError: none is meant.
    """
    names = await _names(admin, patterns, regex, output)
    return [_document(item) for item in await _known(admin, names, output)]


async def listed_shared(
    admin: Admin, patterns: Sequence[str], regex: bool, output: Output
) -> list[dict[str, Any]]:
    """Return one document for each id of shared transactions; failures are reported."""
    listed = output.answered(await admin.list_transactions())
    names = [item.transactional_id for item in listed if item.shared]
    wanted = among(names, patterns, regex=regex)
    return [_document(item) for item in await _known(admin, wanted, output)]


async def _known(
    admin: Admin, names: Sequence[str], output: Output
) -> list[TransactionDescription]:
    """Return the descriptions of those that can be described; the others have failed."""
    described = await admin.describe_transactions(names) if names else ()
    return output.sound(described, lambda item: item.transactional_id)


def show_transactions(
    documents: Sequence[Mapping[str, Any]],
    output: Output,
    columns: Sequence[Column] = DESCRIBE_COLUMNS,
) -> None:
    """Print the ordinary ones in one table, shared ones with their writers in another.

    TSV has all of them, in ``columns``.
    """
    if output.format is Format.TSV:
        output.table(columns, documents)
        return
    ordinary = [each for each in documents if not each["shared"]]
    shared = [each for each in documents if each["shared"]]
    if ordinary:
        output.table(DESCRIBE_COLUMNS, ordinary)
    if shared:
        if ordinary:
            output.line()
        output.table(SHARED_COLUMNS, shared)
    for each in shared:
        if each["writers"]:
            output.line()
            output.table(WRITER_COLUMNS, each["writers"], title=f"{each['transactional_id']}:")


def _document(item: TransactionDescription) -> dict[str, Any]:
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


def _partitions(partitions: Iterable[TopicPartition]) -> dict[str, Any]:
    named = sorted(partitions)
    return {
        "partitions": [tp._asdict() for tp in named],
        "partition_names": partitions_text(named) or None,
    }


# ------------------------------------------------------------------------------ find-hanging


@app.command("find-hanging")
def find_hanging(
    output: Output,
    cluster: NamedCluster,
    topic: Annotated[
        list[str] | None,
        typed.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:N,...]",
            help="Only there; repeatable. Default: the whole cluster.",
            autocompletion=complete_topics,
        ),
    ] = None,
    broker: Annotated[
        int | None,
        typed.Option("--broker", min=0, metavar="ID", help="Only in partitions that it leads."),
    ] = None,
    max_timeout: Annotated[
        str,
        typed.Option(
            "--max-transaction-timeout",
            metavar="DURATION",
            help="transaction_max_timeout_ms of the brokers: what was silent for longer may hang.",
        ),
    ] = "15m",
) -> None:
    """Find transactions that no coordinator will ever end.

    Readers at read_committed stop at the start offset of such a one, until 'transactions abort'
    ends it. What a coordinator knows ends by itself, at its time-out.
    """
    timeout_ms = parsed("--max-transaction-timeout", duration_ms, max_timeout)
    chosen = parsed("--topic", parse_partitions, topic or ())
    from oncelog import TopicPartition

    partitions = [TopicPartition(*item) for item in chosen.partitions]
    found = cluster.ask(
        lambda admin: admin.find_hanging_transactions(
            partitions if topic else None,
            topics=chosen.topics if topic else None,
            broker_id=broker,
            max_transaction_timeout_ms=timeout_ms,
        )
    )
    for error in found.errors:
        output.fail("", error)
    if found.undecided:
        output.answered(found)
        count = len(found.undecided)
        output.fail("", f"{count} more may hang: not all coordinators could be asked")
    rows = [_hanging(item) for item in found]
    output.show(HANGING_COLUMNS, {"transactions": rows})


def _hanging(item: HangingTransaction) -> dict[str, Any]:
    producer = "producer_id producer_epoch last_timestamp_ms coordinator_epoch"
    return {
        **item.partition._asdict(),
        "start_offset": item.start_offset,
        **fields_of(item.producer, producer),
        "transactional_id": item.transactional_id,
    }


# ------------------------------------------------------------------------------ abort, fence


@app.command()
def abort(
    output: Output,
    cluster: NamedCluster,
    topic: Annotated[
        str,
        typed.Option("--topic", "-t", metavar="TOPIC", autocompletion=complete_topics),
    ],
    partition: Annotated[int, typed.Option("--partition", "-p", min=0, metavar="N")],
    producer_id: Annotated[
        int | None,
        typed.Option("--producer-id", min=0, metavar="N", help="Whose transaction it is."),
    ] = None,
    start_offset: Annotated[
        int | None,
        typed.Option("--start-offset", min=0, metavar="N", help="Where it begins."),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Abort the transaction that is open in a partition, as 'find-hanging' shows it.

    If a coordinator has it, it ends it in all partitions and fences the producer. If none has, an
    abort marker is written into this partition.
    """
    if producer_id is None and start_offset is None:
        raise UsageError("which transaction? Give --producer-id or --start-offset")
    what = f"of producer {producer_id}" if producer_id is not None else f"from {start_offset} on"
    if not dry_run:
        confirm(f"Abort the transaction {what} in {topic}-{partition}?", yes)

    from oncelog import TopicPartition

    aborted = cluster.ask(
        lambda admin: admin.abort_transaction(
            TopicPartition(topic, partition),
            producer_id=producer_id,
            start_offset=start_offset,
            validate_only=dry_run,
        )
    )
    by = aborted.transactional_id
    ended = fields_of(aborted, "producer_id producer_epoch transactional_id")
    row = {"topic": topic, "partition": partition, **ended}
    how = "by a marker in this partition" if by is None else f"by the coordinator of {by}"
    done = "would abort" if dry_run else "aborted"
    output.line(f"{done} the transaction of producer {aborted.producer_id}, {how}")
    output.finish({"dry_run": dry_run, "aborted": row}, ABORTED_COLUMNS, [row])


@app.command()
def fence(
    output: Output,
    cluster: NamedCluster,
    transactional_ids: IdsArgument,
    regex: RegexOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Abort the open transactions of transactional ids, and shut their present producers out."""

    async def find(admin: Admin) -> list[str]:
        # An id that is not known yet would come to be by fencing it.
        known = await _known(admin, await _names(admin, transactional_ids, regex, output), output)
        return [item.transactional_id for item in known]

    names = cluster.ask(find)
    rows: list[dict[str, Any]] = [{"transactional_id": name, "fenced": False} for name in names]
    if dry_run:
        for name in names:
            output.line(f"would fence {name}")
    elif names:
        confirm(f"Abort what is open of {', '.join(names)}, and fence the producers?", yes)
        rows = []
        for each in cluster.ask(lambda admin: admin.fence_producers(names)):
            row: dict[str, Any] = {"transactional_id": each.transactional_id, "fenced": False}
            row |= fields_of(each, "producer_id producer_epoch")
            rows.append(output.outcome(row, "fenced", each.transactional_id, each.error))
    output.finish({"dry_run": dry_run, "transactions": rows}, FENCED_COLUMNS)
