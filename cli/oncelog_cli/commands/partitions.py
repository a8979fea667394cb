"""``oncelog partitions`` shows every partition of the cluster as one row, with filters.

``partition_moves.py`` has the commands that move partitions.
"""

from __future__ import annotations

from typing import Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.partition_moves import cancel, move, status
from oncelog_cli.documents.partitions import listed_partitions
from oncelog_cli.options import RegexOption, SomeTopicsArgument
from oncelog_cli.render import PARTITION_NAME, Column, Output

app = typed.App(help="List partitions with what is wrong with them; move them.")

LEADER = Column(
    "LEADER", "leader", right=True, show=lambda value: "none" if value < 0 else str(value)
)
LEADING = (
    LEADER,
    Column("EPOCH", "leader_epoch", right=True),
    Column("REPLICAS", "replicas"),
    Column("ISR", "isr"),
)
OUTSIDE_ISR = (
    Column("ELR", "elr", wide=True),
    Column("LAST KNOWN ELR", "last_known_elr", wide=True),
    Column("OFFLINE", "offline_replicas", wide=True),
)
COLUMNS = (
    *PARTITION_NAME,
    *LEADING,
    Column("MIN ISR", "min_isr", right=True),
    Column("STATE", "states", show=lambda value: ",".join(value) or "ok"),
    *OUTSIDE_ISR,
)


def _flag(name: str, text: str) -> Any:
    return typed.Option(f"--{name}", help=text)


UnderReplicated = Annotated[bool, _flag("under-replicated", "With replicas out of the ISR.")]
Unavailable = Annotated[bool, _flag("unavailable", "That nobody leads.")]
UnderMinIsr = Annotated[bool, _flag("under-min-isr", "With too few in-sync replicas to write.")]
AtMinIsr = Annotated[bool, _flag("at-min-isr", "With just enough of them.")]
NotPreferred = Annotated[bool, _flag("not-preferred", "Not led by their preferred replicas.")]
Internal = Annotated[bool, _flag("internal", "The cluster's own topics as well.")]
BrokerOption = Annotated[
    int | None, typed.Option("--broker", min=0, metavar="ID", help="With a replica there.")
]
LeaderOption = Annotated[
    int | None, typed.Option("--leader", min=0, metavar="ID", help="Led by this broker.")
]


@app.command("list")
def list_partitions(
    output: Output,
    cluster: NamedCluster,
    topics: SomeTopicsArgument = None,
    regex: RegexOption = False,
    broker: BrokerOption = None,
    leader: LeaderOption = None,
    under_replicated: UnderReplicated = False,
    unavailable: Unavailable = False,
    under_min_isr: UnderMinIsr = False,
    at_min_isr: AtMinIsr = False,
    not_preferred: NotPreferred = False,
    internal: Internal = False,
) -> None:
    """List the partitions; of several conditions one has to hold.

    States are unavailable, under-min-isr, at-min-isr, under-replicated and not-preferred.
    """
    conditions = {
        "unavailable": unavailable,
        "under-min-isr": under_min_isr,
        "at-min-isr": at_min_isr,
        "under-replicated": under_replicated,
        "not-preferred": not_preferred,
    }
    answer = cluster.ask(
        lambda admin: listed_partitions(
            admin,
            topics,
            regex=regex,
            internal=internal,
            states=[state for state, asked in conditions.items() if asked],
            broker=broker,
            leader=leader,
        )
    )
    output.show(COLUMNS, output.document_of(answer))


app.command("move")(move)
app.command("cancel")(cancel)
app.command("status")(status)
