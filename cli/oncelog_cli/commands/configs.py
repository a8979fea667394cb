"""``oncelog configs`` describes and alters settings of topics and of running brokers.

Rules: what is altered of a broker holds at once and survives restarts, and goes before its file and
environment; ``--default`` means all brokers. A resource that fails does not stop the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.options import (
    DryRunOption,
    RegexOption,
    UsageError,
    complete_topics,
    set_and_deleted,
)
from oncelog_cli.render import Column, Output, fields_of

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import ConfigOutcome

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

    async def look(admin: Admin) -> Sequence[ConfigOutcome]:
        names = await _topics(admin, topic or [], regex)
        return await admin.describe_configs(
            topics=names, brokers=_brokers(broker, default), keys=keys
        )

    rows = []
    for outcome in cluster.ask(look):
        if outcome.error is not None:
            output.fail(outcome.name, outcome.error)
            continue
        for wanted in keys or ():
            if wanted not in outcome.settings:
                output.fail(_label(outcome), f"there is no setting {wanted!r} of {_label(outcome)}")
        rows += _rows(outcome, every=every or keys is not None)
    output.show(COLUMNS, {"configs": rows})


def _check_named(topics: list[str] | None, brokers: list[int] | None, default: bool) -> None:
    if not topics and not brokers and not default:
        raise UsageError("of what? Give --topic, --broker or --default")


def _brokers(named: list[int] | None, default: bool) -> list[int | None]:
    return [*(named or ()), *([None] if default else [])]


async def _topics(admin: Admin, patterns: Sequence[str], regex: bool) -> list[str]:
    return await clients.topics_named(admin, patterns, regex=regex) if patterns else []


def _label(outcome: ConfigOutcome) -> str:
    if outcome.kind == "broker":
        return f"broker {outcome.name}" if outcome.name else "all brokers"
    return f"{outcome.kind} {outcome.name}"


def _rows(outcome: ConfigOutcome, *, every: bool) -> list[dict[str, Any]]:
    return [
        {
            "resource": _label(outcome),
            **fields_of(outcome, "kind name"),
            **fields_of(setting, "key value source read_only documentation"),
        }
        for setting in sorted(outcome.settings.values(), key=lambda setting: setting.key)
        if every or setting.source != "default"
    ]


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

    async def change(admin: Admin) -> list[ConfigOutcome]:
        changed: list[ConfigOutcome] = []
        names = await _topics(admin, topic or [], regex)
        if names:
            changes = dict.fromkeys(names, entries)
            changed += await admin.alter_configs(changes, validate_only=dry_run)
        if ids := _brokers(broker, default):
            of_brokers = dict.fromkeys(ids, entries)
            changed += await admin.alter_broker_configs(of_brokers, validate_only=dry_run)
        return changed

    rows = []
    for outcome in cluster.ask(change):
        row = fields_of(outcome, "kind name")
        row["altered"] = outcome.error is None and not dry_run
        if outcome.error is None:
            output.line(f"{'would alter' if dry_run else 'altered'} {_label(outcome)}")
        else:
            output.fail(outcome.name, outcome.error)
            row["error"] = outcome.error.name
        rows.append(row)
    output.finish({"dry_run": dry_run, "configs": rows})
