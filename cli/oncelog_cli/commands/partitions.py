"""``oncelog partitions`` shows every partition of the cluster as one row, with filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.cluster import min_insync_replicas
from oncelog_cli.health import needed_isr
from oncelog_cli.options import RegexOption, SomeTopicsArgument
from oncelog_cli.render import PARTITION_NAME, Column, Output, fields_of

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import PartitionDescription, TopicDescription

app = typed.App(help="List partitions: leaders, replicas, and what is wrong with them.")

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
    wanted = {state for state, asked in conditions.items() if asked}
    found, min_isr = cluster.ask(lambda admin: described(admin, topics, regex=regex))
    rows = []
    for topic in output.sound(found, lambda topic: topic.topic):
        if internal or topics or not topic.internal:
            rows += [_row(topic, item, min_isr) for item in topic.partitions]
    rows = [
        row
        for row in rows
        if (not wanted or wanted.intersection(row["states"]))
        and (broker is None or broker in row["replicas"])
        and (leader is None or leader == row["leader"])
    ]
    output.show(COLUMNS, {"partitions": rows})


async def described(
    admin: Admin, patterns: Sequence[str] | None, *, regex: bool
) -> tuple[Sequence[TopicDescription], dict[str, int]]:
    """Return the topics that are meant, and min.insync.replicas of each.

    :raises CommandError: no topic is meant.
    """
    names = await clients.topics_named(admin, patterns, regex=regex) if patterns else None
    found = await admin.describe_topics(names)
    sound = [topic.topic for topic in found if topic.error is None]
    return found, await min_insync_replicas(admin, sound)


def _row(
    topic: TopicDescription, item: PartitionDescription, min_isr: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        **fields_of(item, "partition leader leader_epoch replicas isr"),
        "min_isr": min_isr.get(topic.topic, 1),
        **fields_of(item, "elr last_known_elr offline_replicas"),
        "states": states_of(item, needed_isr(min_isr, topic.topic, item)),
    }


def states_of(item: PartitionDescription, needed: int) -> list[str]:
    """Return the states of a partition, the worst first; the list is empty if all is well."""
    states = {
        "unavailable": item.leader < 0,
        "under-min-isr": len(item.isr) < needed,
        "at-min-isr": len(item.isr) == needed < len(item.replicas),
        "under-replicated": len(item.isr) < len(item.replicas),
        "not-preferred": item.leader >= 0 and item.leader != item.replicas[0],
    }
    return [state for state, holds in states.items() if holds]
