"""``oncelog balance`` shows which replicas should move, has them moved, and says how even it is.

Rules: the controller plans, and changes nothing by it. What is shown is what is begun: a partition
whose replicas are others by then is refused, and does not stop the others.
"""

from __future__ import annotations

from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.partition_moves import copy_extent, show_disks, watch_plan
from oncelog_cli.documents.answer import Document
from oncelog_cli.documents.balancing import begun_balance, planned_balance, seen_balance
from oncelog_cli.exits import EXIT_UNHEALTHY
from oncelog_cli.options import (
    DryRunOption,
    SomeTopicsArgument,
    UsageError,
    YesOption,
    confirm,
    parsed,
)
from oncelog_cli.quota_options import parse_size
from oncelog_cli.render import PARTITION_NAME, Column, Output, counted, human_bytes
from oncelog_cli.watching import INTERVAL, IntervalOption, seconds_of

app = typed.App(help="Plan which replicas should move; move them; say how even brokers are.")

HELD_UP_SHOWN = 5
"""So many partitions that are held up are named; --json has all of them."""

BALANCE_COLUMNS = (
    *PARTITION_NAME,
    Column("FROM", "replicas"),
    Column("TO", "target"),
    Column("BYTES", "bytes_to_copy", right=True, show=human_bytes),
    Column("GOAL", "goal"),
    Column("RESULT", "result"),
    Column("ADDING", "adding", wide=True),
    Column("REMOVING", "removing", wide=True),
)
GOAL_COLUMNS = (
    Column("GOAL", "goal"),
    Column("OFF BY", "before", right=True),
)
BYTE_GOALS = ("disks", "bytes", "writes")
"""Their distances are bytes, of the last one bytes a second."""

GoalOption = Annotated[
    list[str] | None,
    typed.Option(
        "--goal",
        metavar="GOAL",
        help="Only for this one, repeatable: evacuate, whole, racks, disks, topics, replicas, "
        "leaders, bytes, writes.",
    ),
]
PurposeOption = Annotated[
    str,
    typed.Option(
        "--purpose",
        metavar="PURPOSE",
        help="evacuate: off brokers that are decommissioned; repair: instead of brokers that are "
        "away.",
    ),
]
MaxMovesOption = Annotated[
    int | None, typed.Option("--max-moves", min=0, metavar="N", help="Copy no more replicas.")
]
MaxBytesOption = Annotated[
    str | None, typed.Option("--max-bytes", metavar="SIZE", help="Copy no more, such as 200GiB.")
]


@app.command()
def plan(
    output: Output,
    cluster: NamedCluster,
    topics: SomeTopicsArgument = None,
    purpose: PurposeOption = "balance",
    goal: GoalOption = None,
    max_moves: MaxMovesOption = None,
    max_bytes: MaxBytesOption = None,
) -> None:
    """Show which replicas should move, how much that copies, and what it is good for.

    Nothing moves. Goals come in the order in which --goal lists them, and none becomes worse for a
    later one.
    """
    document = _planned(cluster, topics, purpose, goal, max_moves, max_bytes)
    show_plan(output, document)
    output.finish(document)


@app.command("run")
def run_plan(
    output: Output,
    cluster: NamedCluster,
    topics: SomeTopicsArgument = None,
    purpose: PurposeOption = "balance",
    goal: GoalOption = None,
    max_moves: MaxMovesOption = None,
    max_bytes: MaxBytesOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    watch: Annotated[
        bool,
        typed.Option(
            "--watch", "-w", help="Show how far it is until it ends; 10 if something is stalled."
        ),
    ] = False,
    interval: IntervalOption = INTERVAL,
) -> None:
    """Move the replicas that 'balance plan' shows, after a question.

    Returns when the controller has kept the plan; with --watch when it is over. 'partitions status'
    shows how far it is, too.
    """
    pause_s = seconds_of("--interval", interval)
    if watch and dry_run:
        raise UsageError("--watch has nothing to watch with --dry-run")
    document = _planned(cluster, topics, purpose, goal, max_moves, max_bytes)
    if document["partitions"] and not dry_run:
        document = begin_plan(output, cluster, document, "Move", f"balance: {purpose}", yes)
    show_plan(output, document)
    stalled = 0
    if watch and document["plan_id"] is not None:
        stalled = watch_plan(output, cluster, document, pause_s)["stalled"]
    output.finish({**document, "dry_run": dry_run})
    if stalled:
        raise typed.Exit(EXIT_UNHEALTHY)


@app.command()
def status(output: Output, cluster: NamedCluster) -> None:
    """Show how far the cluster is from each goal, and what moves at the moment.

    0 is a goal that is reached. Disks and bytes are in bytes, writes in bytes a second, all others
    in replicas.
    """
    document = cluster.ask(seen_balance)
    rows = document["goals"]
    output.table(GOAL_COLUMNS, rows)
    moving = f"{counted(document['moving'], 'partition')} to move or moving"
    output.line()
    output.line(f"{moving}, {document['queued']} queued, {document['stalled']} stalled")
    _show_held_up(output, document)
    output.finish(document)


def _planned(
    cluster: NamedCluster,
    topics: list[str] | None,
    purpose: str,
    goals: list[str] | None,
    max_moves: int | None,
    max_bytes: str | None,
) -> Document:
    size = None if max_bytes is None else int(parsed("--max-bytes", parse_size, max_bytes))
    return cluster.ask(
        lambda admin: planned_balance(
            admin,
            purpose,
            topics=topics or None,
            goals=goals or None,
            max_moves=max_moves,
            max_bytes=size,
        )
    )


def begin_plan(
    output: Output, cluster: NamedCluster, planned: Document, verb: str, reason: str, yes: bool
) -> Document:
    """Return the document of a plan that was begun, after a question that begins with ``verb``."""
    if output.is_for_people and not yes:
        show_plan(output, planned)
    count = counted(len(planned["partitions"]), "partition")
    confirm(f"{verb} {count}: {balance_extent(planned)}?", yes)
    answer = cluster.ask(lambda admin: begun_balance(admin, planned, reason=reason))
    return output.document_of(answer)


def show_plan(output: Output, document: Document) -> None:
    """Show people what a plan moves, and what it is good for."""
    output.table(BALANCE_COLUMNS, document["partitions"])
    output.line()
    output.line(balance_extent(document))
    show_disks(output, document)
    better = [each for each in document["goals"] if each["before"] != each["after"]]
    for each in better:
        before, after = _amount(each["goal"], each["before"]), _amount(each["goal"], each["after"])
        output.line(f"{each['goal']}: off by {before}, afterwards by {after}")
    _show_held_up(output, document)
    if document["plan_id"] is not None:
        output.line(f"plan {document['plan_id']}: see 'oncelog partitions status'")


def _amount(goal: str, number: int) -> str:
    return human_bytes(number) if goal in BYTE_GOALS else str(number)


def _show_held_up(output: Output, document: Document) -> None:
    held = document["held_up"]
    for each in held[:HELD_UP_SHOWN]:
        output.line(f"{each['topic']}-{each['partition']} stays: {each['reason']}")
    if len(held) > HELD_UP_SHOWN:
        output.line(f"{len(held) - HELD_UP_SHOWN} others stay as well; --json names them")


def balance_extent(document: Document) -> str:
    """Return what the moves of a plan copy, as far as that is known."""
    if not document["partitions"]:
        return "nothing has to move"
    return copy_extent(document)
