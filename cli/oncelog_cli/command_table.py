"""Each sub-command has a line in this table, and is imported when it is used.

A sub-command is a function, or an application (``typed.App``) with commands of its own. To add one,
add a line to ``COMMANDS``; its module is imported only when it runs or shows its help, so that
``oncelog --help`` stays fast, and one that is missing does not harm the others.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from oncelog_cli import typed
from oncelog_cli.exits import UsageError
from oncelog_cli.shared_options import with_shared_options

PASS_THROUGH: dict[str, Any] = {
    "help_option_names": [],
    "ignore_unknown_options": True,
    "allow_extra_args": True,
}


class LazyCommand(NamedTuple):
    """One line of the table: ``target`` is ``module:attribute``."""

    name: str
    target: str
    help: str
    passes_through: bool = False
    """Whether arguments belong to another program, ``--help`` too."""


COMMANDS = (
    LazyCommand("up", "oncelog_cli.commands.local:up", "Start a cluster on this machine."),
    LazyCommand("down", "oncelog_cli.commands.local:down", "Stop the cluster on this machine."),
    LazyCommand("status", "oncelog_cli.commands.local:status", "Show what of it runs."),
    LazyCommand("broker", "oncelog_cli.commands.broker:app", "Run one broker here."),
    LazyCommand(
        "topics", "oncelog_cli.commands.topics:app", "Create, list, describe, alter, delete topics."
    ),
    LazyCommand("produce", "oncelog_cli.commands.produce:produce", "Send lines as records."),
    LazyCommand("consume", "oncelog_cli.commands.consume:consume", "Print records of a topic."),
    LazyCommand(
        "groups",
        "oncelog_cli.commands.groups:app",
        "List, describe, delete consumer groups; reset offsets.",
    ),
    LazyCommand(
        "transactions",
        "oncelog_cli.commands.transactions:app",
        "List, describe, abort transactions; find those that hang.",
    ),
    LazyCommand(
        "shared",
        "oncelog_cli.commands.shared:app",
        "Begin, commit, abort shared transactions.",
    ),
    LazyCommand(
        "producers", "oncelog_cli.commands.producers:app", "What partitions know of producers."
    ),
    LazyCommand(
        "cluster", "oncelog_cli.commands.cluster:app", "Show brokers and controller; health."
    ),
    LazyCommand("partitions", "oncelog_cli.commands.partitions:app", "List partitions, filtered."),
    LazyCommand(
        "configs", "oncelog_cli.commands.configs:app", "Settings of topics and running brokers."
    ),
    LazyCommand(
        "elect-leaders",
        "oncelog_cli.commands.leaders:elect_leaders",
        "Give partitions to their preferred leaders.",
    ),
    LazyCommand(
        "delete-records",
        "oncelog_cli.commands.delete_records:delete_records",
        "Delete records below an offset or a time.",
    ),
    LazyCommand(
        "api-versions", "oncelog_cli.commands.api_versions:api_versions", "APIs of the brokers."
    ),
    LazyCommand(
        "support-bundle",
        "oncelog_cli.commands.support_bundle:support_bundle",
        "One file for whoever helps.",
    ),
    LazyCommand(
        "generate", "oncelog_cli.commands.generate:app", "Files for Prometheus and Grafana."
    ),
    LazyCommand("cheat", "oncelog_cli.commands.cheat:cheat", "Examples."),
    LazyCommand("log-dirs", "oncelog_cli.commands.cluster:log_dirs", "Sizes of replicas on disk."),
    LazyCommand(
        "dump-log", "oncelog_cli.commands.processes:dump_log", "Show what segment files hold."
    ),
    LazyCommand("profile", "oncelog_cli.commands.profile:app", "Name clusters, and choose one."),
    LazyCommand(
        "pipeline", "oncelog_cli.commands.pipeline:app", "Run and check pipelines on Spark."
    ),
    LazyCommand(
        "demo", "oncelog_cli.commands.demos:demo", "Real data, a killed leader, a verdict."
    ),
    LazyCommand("perf", "oncelog_cli.commands.perf:app", "Measure a given cluster."),
    LazyCommand(
        "bench", "oncelog_cli.commands.processes:bench", "Measure speed.", passes_through=True
    ),
)


def load(command: LazyCommand) -> Any:
    """Import the command that a line of the table names.

    :raises UsageError: it is not installed.
    """
    module_name, _, attribute = command.target.partition(":")
    try:
        target = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"'oncelog {command.name}' is not part of this installation") from None
    if isinstance(target, typed.App):
        share_options(target)
        return target.made(command.name)
    settings = PASS_THROUGH if command.passes_through else None
    return typed.command_of(with_shared_options(target), command.name, settings)


def share_options(application: typed.App) -> None:
    """Give every command of an application, and of the groups in it, the options that all have."""
    own = [] if application.called is None else [application.called]
    for registered in (*application.commands, *own):
        registered.wrap(with_shared_options)
    for _, inner in application.groups:
        share_options(inner)
