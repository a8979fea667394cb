"""``oncelog brokers`` lists brokers, takes them out of service, and back.

Rules: what somebody has wanted is kept by the cluster, whatever becomes of the command. With
``--wait`` a command ends when nothing is left to do, or when what is left does not come about by
itself: with 10 then, and with what has to be done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.partition_moves import show_disks
from oncelog_cli.documents.answer import Document, Row
from oncelog_cli.documents.balancing import disks_of_departure
from oncelog_cli.documents.brokers import altered_broker, is_over, is_stuck, listed_brokers
from oncelog_cli.exits import EXIT_UNHEALTHY
from oncelog_cli.group_offsets import Partition, parse_partitions
from oncelog_cli.options import DryRunOption, UsageError, YesOption, confirm, parsed
from oncelog_cli.other_group import OtherGroup
from oncelog_cli.render import PARTITION_NAME, Column, Output, counted
from oncelog_cli.runner import run
from oncelog_cli.watching import look_again, moment, seconds_of

if TYPE_CHECKING:
    from oncelog import Admin

PAUSE_S = 1.0
"""With --wait, the pause between two looks."""

BROKER_COLUMNS = (
    Column("BROKER", "broker_id", right=True),
    Column("STATE", "state"),
    Column("CONTROLLER", "is_controller"),
    Column("RACK", "rack"),
    Column("LEADERS", "leaders", right=True),
    Column("REPLICAS", "replicas", right=True),
)
HELD_COLUMNS = (
    *PARTITION_NAME,
    Column("LEFT", "left"),
    Column("REASON", "reason", show=lambda value: value or "-"),
)


class BrokersGroup(OtherGroup):
    """Its siblings' commands are answered with the right line."""

    other = "broker"
    theirs = ("config", "health")


app = typed.App(cls=BrokersGroup, help="List brokers, take them out of service, and back.")

BrokerArgument = Annotated[int, typed.Argument(metavar="BROKER", min=0, help="The broker's id.")]
WaitOption = Annotated[
    bool, typed.Option("--wait", help="End when nothing is left to do; 10 if somebody has to act.")
]
TimeoutOption = Annotated[
    str | None,
    typed.Option(
        "--timeout",
        metavar="DURATION",
        help="With --wait: end after so long, with 10 if something is left.",
    ),
]


@app.command("list")
def list_brokers(output: Output, cluster: NamedCluster) -> None:
    """Show the brokers that are there: their service, what they lead and what they hold."""
    output.show(BROKER_COLUMNS, output.document_of(cluster.ask(listed_brokers)))


@app.command()
def drain(
    output: Output,
    cluster: NamedCluster,
    broker: BrokerArgument,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Take a broker's leaderships away, so that it can be stopped without anybody's notice.

    Its replicas stay and follow. It leads only what no other broker in sync can, until
    'brokers recommission'.
    """
    _alter(output, cluster, broker, "draining", wait, timeout, dry_run)


@app.command()
def decommission(
    output: Output,
    cluster: NamedCluster,
    broker: BrokerArgument,
    accept_loss: Annotated[
        list[str] | None,
        typed.Option(
            "--accept-loss",
            metavar="TOPIC:N,...",
            help="Give up the records of these partitions, which only a dead broker has; "
            "repeatable.",
        ),
    ] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Take a broker out of the cluster for good: it leads nothing, and is given nothing new.

    Its replicas are moved to other brokers, and it is decommissioned when none is left. Nothing
    changes when they have no place elsewhere. 'brokers recommission' takes it back. --dry-run also
    shows how full disks would be afterwards.
    """
    lost: tuple[Partition, ...] = ()
    if accept_loss:
        chosen = parsed("--accept-loss", parse_partitions, accept_loss)
        if chosen.topics:
            raise UsageError(f"--accept-loss {chosen.topics[0]}: name its partitions, as in t:0,2")
        lost = chosen.partitions
    if not dry_run:
        question = f"Decommission broker {broker}?"
        if lost:
            given_up = counted(len(lost), "partition")
            question = f"Decommission broker {broker}, and lose the records of {given_up}?"
        confirm(question, yes)
    _alter(output, cluster, broker, "decommissioning", wait, timeout, dry_run, lost)


@app.command()
def recommission(
    output: Output,
    cluster: NamedCluster,
    broker: BrokerArgument,
    dry_run: DryRunOption = False,
) -> None:
    """Take a broker back into service: preferred leaders return, and it is given partitions."""
    _alter(output, cluster, broker, "active", False, None, dry_run)


def _alter(
    output: Output,
    cluster: NamedCluster,
    broker: int,
    wanted: str,
    wait: bool,
    timeout: str | None,
    dry_run: bool,
    lost: tuple[Partition, ...] = (),
) -> None:
    if timeout is not None and not wait:
        raise UsageError("--timeout is for --wait")
    if wait and dry_run:
        raise UsageError("--wait has nothing to wait for with --dry-run")
    limit_s = None if timeout is None else seconds_of("--timeout", timeout)
    document = cluster.ask(
        lambda admin: altered_broker(admin, broker, wanted, accept_loss=lost, dry_run=dry_run)
    )
    if wait and not is_over(document):
        document = _waited(output, cluster, document, wanted, limit_s)
    output.line(_summary(document))
    if dry_run and wanted == "decommissioning":
        disks = cluster.ask(lambda admin: disks_of_departure(admin, broker))
        document = {**document, "disks": disks}
        show_disks(output, document)
    rows = _rows(document)
    if rows or not output.is_for_people:
        output.line()
        output.table(HELD_COLUMNS, rows)
    output.finish(document)
    if wait and not is_over(document):
        raise typed.Exit(EXIT_UNHEALTHY)


def _waited(
    output: Output, cluster: NamedCluster, first: Document, wanted: str, limit_s: float | None
) -> Document:
    """Look until nothing is left to do, nothing comes about by itself, or time is up."""
    last = [first]

    async def look(admin: Admin) -> Document:
        found = await altered_broker(admin, first["broker_id"], wanted, dry_run=True)
        return {**found, "dry_run": False}  # it is so, and only looked at

    def seen(found: Document | Exception) -> bool:
        if isinstance(found, Exception):
            output.line(f"{moment()}  {' '.join(str(found).split())}")
            return False
        last[:] = [found]
        output.line(f"{moment()}  {_summary(found)}")
        return is_over(found) or (limit_s is None and is_stuck(found))

    run(look_again(cluster.servers, look, seen, PAUSE_S, limit_s))
    return last[0]


def _rows(document: Document) -> list[Row]:
    kinds = (
        ("leader", "leaders_left"),
        ("replica", "replicas_left"),
        ("only copy", "lost_with_it"),
    )
    return [{**row, "left": kind} for kind, key in kinds for row in document[key]]


def _summary(document: Document) -> str:
    """Return for people what the broker is, and what is left to do."""
    name = f"broker {document['broker_id']}"
    parts = [f"{name} {'would be' if document['dry_run'] else 'is'} {document['state']}"]
    counts = (
        (document["leaders_left_count"], "partition", "led"),
        (document["replicas_left_count"], "replica", "left"),
        (document["lost_with_it_count"], "partition", "whole nowhere else"),
    )
    parts += [f"{counted(count, noun)} {what}" for count, noun, what in counts if count]
    return ", ".join(parts)
