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
    """One line of the table: ``target`` is ``module:attribute`` among the commands."""

    name: str
    target: str
    help: str
    passes_through: bool = False
    """Whether arguments belong to another program, ``--help`` too."""


COMMANDS = (
    LazyCommand("up", "local:up", "Start a cluster on this machine."),
    LazyCommand("down", "local:down", "Stop the cluster on this machine."),
    LazyCommand("status", "local:status", "Show what of it runs."),
    LazyCommand("broker", "broker:app", "Run one broker here."),
    LazyCommand("topics", "topics:app", "Create, list, describe, alter, delete topics."),
    LazyCommand("produce", "produce:produce", "Send lines as records."),
    LazyCommand("consume", "consume:consume", "Print records of a topic."),
    LazyCommand("groups", "groups:app", "List, describe, delete consumer groups; reset offsets."),
    LazyCommand(
        "transactions",
        "transactions:app",
        "List, describe, abort transactions; find those that hang.",
    ),
    LazyCommand("shared", "shared:app", "Begin, commit, abort shared transactions."),
    LazyCommand("producers", "producers:app", "What partitions know of producers."),
    LazyCommand("cluster", "cluster:app", "Show brokers and controller; health."),
    LazyCommand("brokers", "brokers:app", "List brokers; take them out of service, and back."),
    LazyCommand("partitions", "partitions:app", "List partitions, filtered; move them."),
    LazyCommand("balance", "balance:app", "Plan which replicas should move; move them."),
    LazyCommand("configs", "configs:app", "Settings of topics and running brokers."),
    LazyCommand("users", "users:app", "Make, list, disable, delete users; set passwords."),
    LazyCommand("acls", "acls:app", "Who may do what: add, list, explain, delete ACLs."),
    LazyCommand("quotas", "quotas:app", "How much users and addresses may have of brokers."),
    LazyCommand("whoami", "whoami:whoami", "As whom the brokers know you."),
    LazyCommand(
        "elect-leaders", "leaders:elect_leaders", "Give partitions to their preferred leaders."
    ),
    LazyCommand(
        "delete-records",
        "delete_records:delete_records",
        "Delete records below an offset or a time.",
    ),
    LazyCommand("api-versions", "api_versions:api_versions", "APIs of the brokers."),
    LazyCommand("support-bundle", "support_bundle:support_bundle", "One file for whoever helps."),
    LazyCommand("generate", "generate:app", "Files for Prometheus and Grafana."),
    LazyCommand("cheat", "cheat:cheat", "Examples."),
    LazyCommand("log-dirs", "cluster:log_dirs", "Sizes of replicas on disk."),
    LazyCommand("console", "processes:console", "Show the cluster in a browser."),
    LazyCommand("dump-log", "dump_log:dump_log", "Show how a log lies on disk."),
    LazyCommand("profile", "profile:app", "Name clusters, and choose one."),
    LazyCommand("tls", "tls:app", "Make certificates, and check them."),
    LazyCommand("pipeline", "pipeline:app", "Run and check pipelines on Spark."),
    LazyCommand("demo", "demos:demo", "Real data, a killed leader, a verdict."),
    LazyCommand("perf", "perf:app", "Measure a given cluster."),
    LazyCommand("bench", "processes:bench", "Measure speed.", passes_through=True),
)


def load(command: LazyCommand) -> Any:
    """Import the command that a line of the table names.

    :raises UsageError: it is not installed.
    """
    module, _, attribute = command.target.partition(":")
    module_name = f"oncelog_cli.commands.{module}"
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
