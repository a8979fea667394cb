"""``oncelog partitions`` moves partitions to other brokers, cancels moves, and shows them.

Rules: what would move is settled first, partition by partition, and shown; nothing begins without a
yes. A partition that is refused does not stop the others. A command that begins or cancels returns
when the controller has kept the plan; ``status`` shows what comes of it, and ends with 10 when a
move is stalled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.dir_moves import (
    STATUS_COLUMNS as DIRECTORY_COLUMNS,
)
from oncelog_cli.commands.dir_moves import HolderOption, LogDirOption, move_to_directory
from oncelog_cli.documents.answer import Document, Row
from oncelog_cli.documents.balancing import planned_departure
from oncelog_cli.documents.dir_moves import listed_everywhere
from oncelog_cli.documents.moves import (
    begun_moves,
    cancelled_moves,
    listed_moves,
    planned_cancellation,
    planned_moves,
)
from oncelog_cli.exits import EXIT_UNHEALTHY
from oncelog_cli.group_offsets import Chosen, Partition, parse_partitions
from oncelog_cli.move_progress import MoveProgress
from oncelog_cli.options import (
    DryRunOption,
    SomeTopicsArgument,
    UsageError,
    YesOption,
    complete_topics,
    confirm,
    parsed,
    read_named_file,
)
from oncelog_cli.progress import ProgressBar
from oncelog_cli.reassignment_text import parse_brokers, parse_reassignments
from oncelog_cli.render import (
    PARTITION_NAME,
    Column,
    Output,
    counted,
    human_bytes,
    human_seconds,
    human_time,
    partition_text,
)
from oncelog_cli.runner import run
from oncelog_cli.watching import (
    INTERVAL,
    IntervalOption,
    WatchOption,
    look_again,
    moment,
    seconds_of,
)

if TYPE_CHECKING:
    from oncelog import Admin

SHOWN = 5
"""So many stalled moves are named in a line, and disks of so many brokers one by one."""

MOVE_COLUMNS = (
    *PARTITION_NAME,
    Column("FROM", "replicas"),
    Column("TO", "target"),
    Column("BYTES", "bytes_to_copy", right=True, show=human_bytes),
    Column("RESULT", "result"),
    Column("ADDING", "adding", wide=True),
    Column("REMOVING", "removing", wide=True),
    Column("TIME", "seconds", wide=True, right=True, show=human_seconds),
)
CANCEL_COLUMNS = (
    *PARTITION_NAME,
    Column("BACK TO", "origin"),
    Column("INSTEAD OF", "target"),
    Column("PHASE", "phase"),
    Column("RESULT", "result"),
)
STATUS_COLUMNS = (
    *PARTITION_NAME,
    Column("FROM", "origin"),
    Column("TO", "target"),
    Column("PHASE", "phase"),
    Column("PERCENT", "percent", right=True),
    Column("COPIED", "bytes_done", right=True, show=human_bytes),
    Column("OF", "bytes_total", right=True, show=human_bytes),
    Column("BYTES/S", "bytes_per_s", right=True, show=human_bytes),
    Column("LEFT", "seconds_left", right=True, show=human_seconds),
    Column("REASON", "reason", show=lambda value: value or "-"),
    Column("REPLICAS", "replicas", wide=True),
    Column("LEAVING", "leaving", wide=True),
    Column("SINCE", "since_ms", wide=True, show=human_time),
    Column("PLAN", "plan_id", wide=True, show=lambda value: value or "-"),
)

PartitionsArgument = Annotated[
    list[str] | None,
    typed.Argument(metavar="[TOPIC[:N,...]...]", autocompletion=complete_topics),
]
ToOption = Annotated[
    str | None,
    typed.Option(
        "--to",
        metavar="ID,...",
        help="Brokers that are to have it, the preferred leader first.",
    ),
]
FromFileOption = Annotated[
    Path | None,
    typed.Option(
        "--from-file", metavar="PATH", help="Kafka's reassignment JSON instead; - is stdin."
    ),
]
FromBrokerOption = Annotated[
    int | None,
    typed.Option(
        "--from-broker",
        metavar="ID",
        min=0,
        help="Move replicas off this broker; the controller plans where to.",
    ),
]
TopicOption = Annotated[
    list[str] | None,
    typed.Option(
        "--topic",
        metavar="REGEX",
        help="With --from-broker: only of topics that match; repeatable.",
    ),
]
FactorOption = Annotated[
    bool,
    typed.Option(
        "--allow-replication-factor-change", help="There may be more or fewer replicas than before."
    ),
]


# ------------------------------------------------------------------------------ move


def move(
    output: Output,
    cluster: NamedCluster,
    partitions: PartitionsArgument = None,
    to: ToOption = None,
    from_file: FromFileOption = None,
    from_broker: FromBrokerOption = None,
    topic: TopicOption = None,
    log_dir: LogDirOption = None,
    broker: HolderOption = None,
    allow_replication_factor_change: FactorOption = False,
    reason: Annotated[
        str, typed.Option("--reason", metavar="TEXT", help="It is shown with the plan.")
    ] = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Move partitions to other brokers, or directories, while they are written and read.

    Returns when the controller has kept the plan; 'partitions status' shows how far it is. A
    partition that moves already gets the new target. With --log-dir replicas of one broker go to
    another directory of it.
    """
    if log_dir is not None or broker is not None:
        elsewhere = [each for each in (to, from_file, from_broker, topic) if each is not None]
        if elsewhere or not partitions:
            raise UsageError("--log-dir needs --broker and partitions, and no other target")
        some = parsed("", parse_partitions, partitions)
        return move_to_directory(output, cluster, some, (broker, log_dir), yes=yes, dry_run=dry_run)
    factor = allow_replication_factor_change
    if topic and from_broker is None:
        raise UsageError("--topic is for --from-broker")
    if from_broker is not None:
        if partitions or to is not None or from_file is not None:
            raise UsageError("--from-broker finds partitions and brokers itself")
        document = cluster.ask(lambda admin: planned_departure(admin, from_broker, topic or []))
    else:
        chosen, targets = _wishes(partitions or [], to, from_file)
        document = output.document_of(
            cluster.ask(
                lambda admin: planned_moves(
                    admin, chosen, targets, allow_replication_factor_change=factor
                )
            )
        )
    _carry_out(output, cluster, document, factor, reason, yes, dry_run)


def _carry_out(
    output: Output,
    cluster: NamedCluster,
    document: Document,
    factor: bool,
    reason: str,
    yes: bool,
    dry_run: bool,
) -> None:
    """Have moves begun after a question, or only show them."""
    rows = document["partitions"]
    moving = [row for row in rows if row["result"] == "would move"]
    if moving and not dry_run:
        if output.is_for_people and not yes:
            output.table(MOVE_COLUMNS, rows)
        confirm(f"Move {counted(len(moving), 'partition')}: {copy_extent(document)}?", yes)
        answer = cluster.ask(
            lambda admin: begun_moves(
                admin, rows, allow_replication_factor_change=factor, reason=reason
            )
        )
        document = {**document, **output.document_of(answer)}
    output.table(MOVE_COLUMNS, document["partitions"])
    for each in document.get("held_up", [])[:SHOWN]:
        output.line(f"{partition_text(each)} stays: {each['reason']}")
    if moving:
        output.line()
        output.line(copy_extent(document))
        show_disks(output, document)
        if document["plan_id"] is not None:
            output.line(f"plan {document['plan_id']}: see 'oncelog partitions status'")
    output.finish({**document, "dry_run": dry_run})


def _wishes(
    partitions: list[str], to: str | None, from_file: Path | None
) -> tuple[Chosen, Mapping[Partition, Sequence[int]] | Sequence[int]]:
    """Return which partitions are to move, and where to.

    :raises UsageError: not said, or said twice.
    """
    if from_file is not None:
        if partitions or to is not None:
            raise UsageError("--from-file names partitions and brokers itself")
        found = read_named_file(from_file, lambda lines: parse_reassignments(lines.read()))
        return Chosen(partitions=tuple(found)), found
    if not partitions or to is None:
        raise UsageError(
            "say which partitions, and --to which brokers; or give --from-file or --from-broker"
        )
    return parsed("", parse_partitions, partitions), parsed("--to", parse_brokers, to)


def copy_extent(document: Document) -> str:
    """Return what the moves of a document copy and how long that takes, as far as it is known."""
    if not document["copies"]:
        return "nothing is copied"
    size, seconds = document["bytes_to_copy"], document["seconds"]
    parts = [f"{counted(document['copies'], 'replica')} to copy"]
    parts.append("their size is not known" if size is None else human_bytes(size))
    if seconds is not None:
        parts.append(f"about {human_seconds(seconds)} at the pace of the last hour")
        if size and seconds:
            parts.append(f"{human_bytes(size // seconds)}/s")
    return ", ".join(parts)


def show_disks(output: Output, document: Document) -> None:
    """Show people how full the disks are now that the moves of a document fill or empty, and how
    full afterwards. Of many brokers the range is said; ``--json`` has all."""
    disks: list[Row] = document["disks"]
    if len(disks) <= SHOWN:
        for each in disks:
            now, then = _fullness([each["percent"]]), _fullness([each["percent_after"]])
            output.line(f"broker {each['broker_id']}: disks {now} full, afterwards {then}")
        return
    now = _fullness([each["percent"] for each in disks])
    then = _fullness([each["percent_after"] for each in disks])
    output.line(f"{counted(len(disks), 'broker')}: disks {now} full, afterwards {then}")


def _fullness(percents: Sequence[int | None]) -> str:
    """Return percents as people say them; "-" as soon as one is not known."""
    known = [each for each in percents if each is not None]
    if len(known) < len(percents):
        return "-"
    least, most = min(known), max(known)
    return f"{most} %" if least == most else f"{least} to {most} %"


# ------------------------------------------------------------------------------ cancel


def cancel(
    output: Output,
    cluster: NamedCluster,
    partitions: PartitionsArgument = None,
    all_of_them: Annotated[bool, typed.Option("--all", help="Everything that moves.")] = False,
    now: Annotated[
        bool,
        typed.Option(
            "--now", help="Do not wait until the original replicas are as good as the added ones."
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Cancel moves: partitions go back to the replicas that they had before.

    What has not begun is forgotten. A move that turns back keeps its added replicas until the
    original ones have caught up with them.
    """
    if all_of_them == bool(partitions):
        raise UsageError("say which partitions, or --all")
    chosen = parsed("", parse_partitions, partitions) if partitions else None
    document = output.document_of(
        cluster.ask(lambda admin: planned_cancellation(admin, chosen, now=now))
    )
    rows = document["partitions"]
    moving = [row for row in rows if row["result"] == "would cancel"]
    if moving and not dry_run:
        if output.is_for_people and not yes:
            output.table(CANCEL_COLUMNS, rows)
        confirm(f"Cancel the move of {counted(len(moving), 'partition')}?", yes)
        answer = cluster.ask(lambda admin: cancelled_moves(admin, rows, now=now))
        document = output.document_of(answer)
    output.show(CANCEL_COLUMNS, {**document, "dry_run": dry_run})


# ------------------------------------------------------------------------------ status


def status(
    output: Output,
    cluster: NamedCluster,
    topics: SomeTopicsArgument = None,
    watch: WatchOption = False,
    interval: IntervalOption = INTERVAL,
    exit_when_done: Annotated[
        bool,
        typed.Option(
            "--exit-when-done",
            "-e",
            help="With --watch: end once nothing moves, or what still does is stalled.",
        ),
    ] = False,
    timeout: Annotated[
        str | None,
        typed.Option(
            "--timeout",
            metavar="DURATION",
            help="With --watch: end after so long, with 10 if something moves still.",
        ),
    ] = None,
) -> None:
    """Show what moves, how far it is, and what it waits for: exit code 10 if a move is stalled.

    Phases are queued, copying, in sync, warming, turning back, stalled and leaving.
    """
    if (exit_when_done or timeout is not None) and not watch:
        raise UsageError("--exit-when-done and --timeout are for --watch")
    if watch and output.is_json and not exit_when_done:
        raise UsageError("--watch has no end, and JSON is one document: add --exit-when-done")
    pause_s = seconds_of("--interval", interval)
    limit_s = None if timeout is None else seconds_of("--timeout", timeout)

    def look(admin: Admin) -> Awaitable[Document]:
        return listed_everywhere(admin, topics)

    document = (
        _watched(output, cluster, look, pause_s, limit_s, until=exit_when_done)
        if watch
        else cluster.ask(look)
    )
    rows, directories = document["partitions"], document["directories"]
    if rows or not output.is_for_people:
        output.table(STATUS_COLUMNS, rows)
    elif not watch and not directories:
        output.line("nothing moves")
    if directories and output.is_for_people:
        output.table(DIRECTORY_COLUMNS, directories)
    if rows and not watch:
        output.line()
        output.line(_summary_of_brokers(document))
    output.finish(document)
    if document["stalled"] or (_moves(document) and (exit_when_done or timeout is not None)):
        raise typed.Exit(EXIT_UNHEALTHY)


def watch_plan(
    output: Output, cluster: NamedCluster, planned: Document, pause_s: float
) -> Document:
    """Show how far a plan is until it is over, or all that is left of it is stalled; return the
    last document of what moves of its topics.

    People see a bar; lines of their own are for pipes.

    :raises Exception: why the last look has found nothing.
    """
    rows: list[Row] = planned["partitions"]
    progress = MoveProgress(rows)
    topics = sorted({row["topic"] for row in rows})
    with ProgressBar("moving", progress.total, wanted=output.is_for_people) as bar:

        def shown(found: Document) -> None:
            progress.see(found["partitions"])
            bar.show(progress.done, f"{progress.percent} %")

        def look(admin: Admin) -> Awaitable[Document]:
            return listed_moves(admin, topics)

        return _watched(output, cluster, look, pause_s, None, until=True, shown=shown)


def _watched(
    output: Output,
    cluster: NamedCluster,
    look: Callable[[Admin], Awaitable[Document]],
    pause_s: float,
    limit_s: float | None,
    *,
    until: bool,
    shown: Callable[[Document], None] | None = None,
) -> Document:
    """Look until nothing moves any more, all that does is stalled, or time is up.

    :param shown: gets what each look has found.
    :raises Exception: why the last look has found nothing.
    """
    last: list[Document | Exception] = []

    def seen(found: Document | Exception) -> bool:
        last[:] = [found]
        if isinstance(found, Exception):
            output.line(f"{moment()}  {' '.join(str(found).split())}")
            return not _may_pass(found)
        output.line(f"{moment()}  {_summary(found)}")
        if shown is not None:
            shown(found)
        return until and found["stalled"] == _moves(found)

    run(look_again(cluster.servers, look, seen, pause_s, limit_s))
    (found,) = last
    if isinstance(found, Exception):
        raise found
    return found


def _may_pass(error: Exception) -> bool:
    """Return whether a later look may find more: the cluster has not refused the question."""
    from oncelog.errors import ApiError, is_retriable

    return not isinstance(error, ApiError) or is_retriable(error)


def _moves(document: Document) -> int:
    """Return how many moves a look has found, between brokers and between directories."""
    return len(document["partitions"]) + len(document.get("directories", ()))


def _summary(document: Document) -> str:
    """Return for people how far it is in all, and what is stalled."""
    texts = []
    if document["partitions"]:
        texts.append(_summary_of_brokers(document))
    if directories := document.get("directories"):
        done = sum(row["bytes_done"] for row in directories)
        size = sum(row["bytes_total"] or 0 for row in directories)
        texts.append(
            f"{counted(len(directories), 'replica')} to another directory,"
            f" {human_bytes(done)} of {human_bytes(size)}"
        )
    return "; ".join(texts) or "nothing moves"


def _summary_of_brokers(document: Document) -> str:
    rows: list[Row] = document["partitions"]
    phases: dict[Any, int] = {}
    for row in rows:
        phases[row["phase"]] = phases.get(row["phase"], 0) + 1
    parts = [", ".join(f"{number:,} {phase}" for phase, number in phases.items())]
    if document["bytes_total"]:
        parts.append(f"{document['percent']} % of {human_bytes(document['bytes_total'])}")
    stalled = [row for row in rows if row["phase"] == "stalled"]
    parts += [f"{partition_text(row)}: {row['reason'] or 'stalled'}" for row in stalled[:SHOWN]]
    if len(stalled) > SHOWN:
        parts.append(f"and {len(stalled) - SHOWN:,} more")
    return "; ".join(parts)
