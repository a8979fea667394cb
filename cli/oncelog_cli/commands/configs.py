"""``oncelog configs`` describes and alters settings of topics and of running brokers.

Rules: what is altered of a broker holds at once and survives restarts, and goes before its file and
environment; ``--default`` means all brokers. A resource that fails does not stop the others.
"""

from __future__ import annotations

from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.configs import altered_configs, described_configs, resource_label
from oncelog_cli.options import (
    DryRunOption,
    RegexOption,
    UsageError,
    complete_topics,
    set_and_deleted,
)
from oncelog_cli.render import Column, Output

app = typed.App(help="Describe and alter settings of topics and of running brokers.")

COLUMNS = (
    Column("OF", "resource"),
    Column("SETTING", "key"),
    Column("VALUE", "value"),
    Column("SOURCE", "source"),
    Column("READ-ONLY", "read_only", wide=True),
    Column("MEANING", "documentation", wide=True),
)

TopicsOption = Annotated[
    list[str] | None,
    typed.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Of this topic; repeatable.",
        autocompletion=complete_topics,
    ),
]
BrokersOption = Annotated[
    list[int] | None,
    typed.Option("--broker", min=0, metavar="ID", help="Of this broker; repeatable."),
]
DefaultOption = Annotated[
    bool, typed.Option("--default", help="What is set for all brokers while they run.")
]


@app.command()
def describe(
    output: Output,
    cluster: NamedCluster,
    topic: TopicsOption = None,
    broker: BrokersOption = None,
    default: DefaultOption = False,
    regex: RegexOption = False,
    key: Annotated[
        list[str] | None,
        typed.Option("--key", "-k", metavar="KEY", help="Only this setting; repeatable."),
    ] = None,
    every: Annotated[
        bool, typed.Option("--all", "-a", help="Defaults as well, not only what was set.")
    ] = False,
) -> None:
    """Show settings of topics or brokers, and where each value comes from.

    Without --all those that somebody has set; --key shows a setting wherever it comes from.
    """
    _check_named(topic, broker, default)
    keys = [name.replace(".", "_") for name in key] if key else None
    answer = cluster.ask(
        lambda admin: described_configs(
            admin, topic or (), _brokers(broker, default), regex=regex, keys=keys, every=every
        )
    )
    output.show(COLUMNS, output.document_of(answer))


def _check_named(topics: list[str] | None, brokers: list[int] | None, default: bool) -> None:
    if not topics and not brokers and not default:
        raise UsageError("of what? Give --topic, --broker or --default")


def _brokers(named: list[int] | None, default: bool) -> list[int | None]:
    return [*(named or ()), *([None] if default else [])]


# ------------------------------------------------------------------------------ alter


@app.command()
def alter(
    output: Output,
    cluster: NamedCluster,
    topic: TopicsOption = None,
    broker: BrokersOption = None,
    default: DefaultOption = False,
    regex: RegexOption = False,
    assignments: Annotated[
        list[str] | None,
        typed.Option("--config", "--set", "-c", metavar="KEY=VALUE", help="Set it; repeatable."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typed.Option(
            "--delete-config",
            "--delete",
            metavar="KEY",
            help="Back to what holds without; repeatable.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Set the settings of topics or running brokers, or take them back; others stay as they are.

    Values are checked before anything changes. What a broker takes only with a restart is refused.
    """
    _check_named(topic, broker, default)
    entries = set_and_deleted(assignments or (), delete or ())
    if not entries:
        raise UsageError("say what to change: --config or --delete-config")
    answer = cluster.ask(
        lambda admin: altered_configs(
            admin, entries, topic or (), _brokers(broker, default), regex=regex, dry_run=dry_run
        )
    )
    document = output.document_of(answer)
    sound = [row for row in document["configs"] if "error" not in row]
    labels = [resource_label(row["kind"], row["name"]) for row in sound]
    output.tell("would alter" if dry_run else "altered", labels)
    output.finish(document)
