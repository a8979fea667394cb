"""``oncelog transactions`` has commands to list, describe, abort and fence, and finds what hangs.

Rules: an item that fails does not stop the others; each failure is a line on stderr, and the exit
code is then 1. A broker that could not say which transactional ids it has is such a failure too: a
list that may lack some never looks complete, and nothing is said to hang then. What ends something
asks first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.answer import Answer
from oncelog_cli.documents.transaction_partitions import with_partitions
from oncelog_cli.documents.transactions import (
    aborted_transaction,
    described_transactions,
    doomed_producers,
    fenced_producers,
    hanging_transactions,
    listed_transactions,
)
from oncelog_cli.group_offsets import duration_ms, parse_partitions
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
from oncelog_cli.render import PARTITION_NAME, Column, Output, counted, human_time

if TYPE_CHECKING:
    from oncelog import Admin

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
IN_PARTITION_COLUMNS = (
    *PARTITION_NAME,
    Column("WRITER", "writer", wide=True),
    PRODUCER[0],
    Column("OPEN", "open"),
    Column("BEGINS AT", "start_offset", right=True),
    Column("MARKED", "marked"),
    Column("MARKER AT", "marker_offset", right=True),
    Column("LAST STABLE", "last_stable_offset", right=True, wide=True),
    Column("HIGH WATERMARK", "high_watermark", right=True, wide=True),
    Column("HOLDS BACK", "holds_back", right=True),
    Column("WAITING GROUPS", "waiting_groups"),
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
    answer = cluster.ask(
        lambda admin: listed_transactions(
            admin,
            patterns,
            regex=regex,
            states=state or (),
            producer_ids=producer_id or (),
            older_than_ms=older_than_ms,
        )
    )
    output.show(LIST_COLUMNS, output.document_of(answer))


# ------------------------------------------------------------------------------ describe


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
    transactional_ids: IdsArgument,
    regex: RegexOption = False,
    partitions: Annotated[
        bool,
        typed.Option(
            "--partitions",
            help="How it stands in each partition: open or not, whether its marker is written,"
            " records that it holds back from readers, and groups that wait for them.",
        ),
    ] = False,
) -> None:
    """Show what transactional ids are doing: state, producer, age, partitions, writers."""

    async def described(admin: Admin) -> Answer:
        answer = await described_transactions(admin, transactional_ids, regex=regex)
        return await with_partitions(admin, answer) if partitions else answer

    document = output.document_of(cluster.ask(described))
    show_transactions(document["transactions"], output)
    for each in document["transactions"] if partitions else ():
        if each["in_partitions"]:
            output.line()
            title = f"{each['transactional_id']} in its partitions:"
            output.table(IN_PARTITION_COLUMNS, each["in_partitions"], title=title, detail=True)
    if document.get("groups_not_asked"):
        more = counted(document["groups_not_asked"], "more group")
        output.note(f"{more} may wait: they have not said how far they have come")
    output.finish(document)


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
    chosen = parsed("--topic", parse_partitions, topic) if topic else None
    answer = cluster.ask(
        lambda admin: hanging_transactions(admin, chosen, broker=broker, max_timeout_ms=timeout_ms)
    )
    output.show(HANGING_COLUMNS, output.document_of(answer))


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

    document = cluster.ask(
        lambda admin: aborted_transaction(
            admin,
            TopicPartition(topic, partition),
            producer_id=producer_id,
            start_offset=start_offset,
            dry_run=dry_run,
        )
    )
    aborted = document["aborted"]
    by = aborted["transactional_id"]
    how = "by a marker in this partition" if by is None else f"by the coordinator of {by}"
    done = "would abort" if dry_run else "aborted"
    output.line(f"{done} the transaction of producer {aborted['producer_id']}, {how}")
    output.finish(document, ABORTED_COLUMNS, [aborted])


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
    document = output.document_of(
        cluster.ask(lambda admin: doomed_producers(admin, transactional_ids, regex=regex))
    )
    names = [row["transactional_id"] for row in document["transactions"]]
    if dry_run:
        output.tell("would fence", names)
    elif names:
        confirm(f"Abort what is open of {', '.join(names)}, and fence the producers?", yes)
        document = output.document_of(cluster.ask(lambda admin: fenced_producers(admin, names)))
        fenced = (row for row in document["transactions"] if row["fenced"])
        output.tell("fenced", (row["transactional_id"] for row in fenced))
    output.finish({**document, "dry_run": dry_run}, FENCED_COLUMNS)
