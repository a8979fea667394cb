"""``oncelog groups`` has commands to list, describe and delete groups, and ``reset-offsets``.

Rules: a group that fails does not stop the others; each failure is a line on stderr, and the exit
code is then 1. A broker that could not say which groups it has is such a failure too: a list that
may lack some never looks complete. What destroys asks first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.group_reset import reset, reset_offsets, show_plan
from oncelog_cli.documents.answer import Answer
from oncelog_cli.documents.group_reset import offsets_of
from oncelog_cli.documents.groups import (
    deleted_groups,
    deleted_offsets,
    described_groups,
    doomed_groups,
    doomed_offsets,
    listed_groups,
)
from oncelog_cli.group_offsets import parse_partitions
from oncelog_cli.options import (
    DryRunOption,
    GroupArgument,
    RegexOption,
    YesOption,
    complete_groups,
    confirm,
    parsed,
)
from oncelog_cli.render import PARTITION_NAME, Column, Output, human_time, partition_text

if TYPE_CHECKING:
    from oncelog import Admin

app = typed.App(help="List, describe and delete consumer groups, and reset their offsets.")

Groups = Annotated[list[str], typed.Argument(metavar="GROUP...", autocompletion=complete_groups)]

GROUP_COLUMNS = (
    Column("GROUP", "group"),
    Column("STATE", "state"),
    Column("MEMBERS", "member_count", right=True),
)
LIST_COLUMNS = (
    *GROUP_COLUMNS,
    Column("COORDINATOR", "coordinator", right=True),
    Column("TYPE", "protocol_type", wide=True),
)
STATE_COLUMNS = (
    *GROUP_COLUMNS,
    Column("LAG", "lag", right=True),
    Column("ASSIGNOR", "assignor", show=lambda value: value or "-"),
    Column("GENERATION", "generation_id", right=True),
    Column("COORDINATOR", "coordinator", right=True),
    Column("LEADER", "leader", wide=True, show=lambda value: value or "-"),
)
OFFSET_COLUMNS = (
    *PARTITION_NAME,
    Column("OFFSET", "offset", right=True),
    Column("END", "end_offset", right=True),
    Column("LAG", "lag", right=True),
    Column("MEMBER", "member"),
    Column("CLIENT", "client_id"),
    Column("HOST", "client_host"),
    Column("START", "log_start_offset", right=True, wide=True),
    Column("COMMITTED", "commit_timestamp", wide=True, show=human_time),
    Column("METADATA", "metadata", wide=True, show=lambda value: value or "-"),
)
TOPIC_COLUMNS = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partition_count", right=True),
    Column("LAG", "lag", right=True),
)
MEMBER_COLUMNS = (
    Column("MEMBER", "member_id"),
    Column("INSTANCE", "group_instance_id"),
    Column("CLIENT", "client_id"),
    Column("HOST", "client_host"),
    Column("PARTITIONS", "partitions", right=True, show=lambda value: str(len(value))),
    Column("SUBSCRIBED", "topics", wide=True),
    Column("ASSIGNMENT", "assignment", wide=True),
)
DELETED_COLUMNS = (Column("GROUP", "group"), Column("DELETED", "deleted"), Column("ERROR", "error"))
DELETED_OFFSET_COLUMNS = (*PARTITION_NAME, *DELETED_COLUMNS[1:])


# ------------------------------------------------------------------------------ list


@app.command("list")
def list_groups(
    output: Output,
    cluster: NamedCluster,
    patterns: Annotated[
        list[str] | None,
        typed.Argument(metavar="[GROUP...]", autocompletion=complete_groups),
    ] = None,
    regex: RegexOption = False,
    state: Annotated[
        list[str] | None,
        typed.Option("--state", metavar="STATE", help="Only groups in this state; repeatable."),
    ] = None,
) -> None:
    """List the groups, with their states.

    States are Empty, PreparingRebalance, CompletingRebalance, Stable and Dead.
    """
    answer = cluster.ask(
        lambda admin: listed_groups(admin, patterns, regex=regex, states=state or ())
    )
    output.show(LIST_COLUMNS, output.document_of(answer))


# ------------------------------------------------------------------------------ describe


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
    groups: Groups,
    regex: RegexOption = False,
    offsets: Annotated[
        bool, typed.Option("--offsets", help="Partitions: offset, end, lag, member. The default.")
    ] = False,
    members: Annotated[
        bool, typed.Option("--members", help="Members and what they have; wide: partition by one.")
    ] = False,
    state: Annotated[
        bool, typed.Option("--state", help="One line a group, with the sum of its lag.")
    ] = False,
    by_topic: Annotated[
        bool, typed.Option("--by-topic", help="The lag of each topic, not of each partition.")
    ] = False,
    verbose: Annotated[
        bool, typed.Option("--verbose", help="Members, state and offsets, with every column.")
    ] = False,
) -> None:
    """Show how far groups have come: offsets and lag, members, state.

    Lag is counted by the brokers, from the committed offset to the end of the partition. A dash is
    what is not known: nothing committed, or a leader that did not answer. JSON holds all views.
    """
    document = output.document_of(
        cluster.ask(lambda admin: described_groups(admin, groups, regex=regex))
    )
    found = document["groups"]
    if verbose:
        members = state = offsets = True
        output.widen()
    if state:
        output.table(STATE_COLUMNS, found, detail=offsets or members or by_topic)
    if by_topic:
        rows = [row for group in found for row in group["topics"]]
        output.table(TOPIC_COLUMNS, rows, detail=offsets or members)
    elif offsets or members or not state:
        for number, group in enumerate(found):
            if number or state:
                output.line()
            _show(group, output, offsets=offsets or not members, members=members)
    output.finish(document)


def _show(document: Mapping[str, Any], output: Output, *, offsets: bool, members: bool) -> None:
    count, lag = document["member_count"], document["lag"]
    parts = [document["state"], f"{count} member{'s' * (count != 1)}"]
    parts += [f"lag {lag}"] if lag is not None else []
    parts += [document["assignor"]] if document["assignor"] else []
    parts += [f"generation {document['generation_id']}"] if document["generation_id"] >= 0 else []
    parts.append(f"coordinator {document['coordinator']}")
    output.line(f"{document['group']}: {', '.join(parts)}")
    if members and document["members"]:
        output.line()
        output.table(
            MEMBER_COLUMNS, document["members"], under={"group": document["group"]}, detail=offsets
        )
    if offsets and document["offsets"]:
        output.line()
        output.table(OFFSET_COLUMNS, document["offsets"], under={"group": document["group"]})


app.command("reset-offsets")(reset_offsets)


@app.command()
def clone(
    output: Output,
    cluster: NamedCluster,
    source: Annotated[str, typed.Argument(metavar="SOURCE", autocompletion=complete_groups)],
    target: Annotated[str, typed.Argument(metavar="TARGET")],
    dry_run: DryRunOption = False,
) -> None:
    """Give a group the committed offsets of another one; it must have no members."""

    async def work(admin: Admin) -> Answer:
        offsets = await offsets_of(admin, source, None)
        return await reset(admin, target, None, offsets, execute=not dry_run)

    show_plan(cluster.ask(work), output, export=False)


# ------------------------------------------------------------------------------ delete


@app.command()
def delete(
    output: Output,
    cluster: NamedCluster,
    groups: Groups,
    regex: RegexOption = False,
    if_exists: Annotated[
        bool, typed.Option("--if-exists", help="A group that does not exist is no failure.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Forget groups that have no members, and their offsets."""
    plan = cluster.ask(lambda admin: doomed_groups(admin, groups, regex=regex, if_exists=if_exists))
    document = output.document_of(plan)
    for name in plan.missing:
        output.line(f"{name} does not exist")
    names = [row["group"] for row in document["groups"]]
    if dry_run:
        output.tell("would delete", names)
    elif names:
        confirm(f"Delete {', '.join(names)} with all committed offsets?", yes)
        answer = cluster.ask(lambda admin: deleted_groups(admin, names, if_exists=if_exists))
        document = output.document_of(answer)
        gone = (row["group"] for row in document["groups"] if row["deleted"])
        output.tell("deleted", gone)
    output.finish({**document, "dry_run": dry_run}, DELETED_COLUMNS)


@app.command("delete-offsets")
def delete_offsets(
    output: Output,
    cluster: NamedCluster,
    group: GroupArgument,
    topic: Annotated[
        list[str],
        typed.Option(
            "--topic", "-t", metavar="TOPIC[:N,...]", help="Of these partitions; repeatable."
        ),
    ],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Forget what a group has committed for topics that none of its members is subscribed to."""
    chosen = parsed("--topic", parse_partitions, topic)
    document = output.document_of(cluster.ask(lambda admin: doomed_offsets(admin, group, chosen)))
    rows = document["offsets"]
    if dry_run:
        output.tell("would delete the offset of", map(partition_text, rows))
    elif rows:
        confirm(f"Delete {len(rows)} committed offsets of {group}?", yes)
        document = output.document_of(
            cluster.ask(lambda admin: deleted_offsets(admin, group, rows))
        )
        gone = (row for row in document["offsets"] if row["deleted"])
        output.tell("deleted the offset of", map(partition_text, gone))
    output.finish({**document, "dry_run": dry_run}, DELETED_OFFSET_COLUMNS)
