"""The ``oncelog`` command: a table of sub-commands, each imported when it is used.

A sub-command is a function, or a Typer application with commands of its own. To add one, add a
line to ``COMMANDS``; its module is imported only when it runs or shows its help, so that
``oncelog --help`` stays fast, and one that is missing does not harm the others.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from oncelog_cli import render
from oncelog_cli.exits import EXIT_INTERRUPTED, EXIT_OK, UsageError
from oncelog_cli.invocation import with_shared_options
from oncelog_cli.runner import exit_code_of

HELP_OPTIONS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
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
    LazyCommand("demo", "oncelog_cli.demo.command:demo", "Real data, a killed leader, a verdict."),
    LazyCommand("perf", "oncelog_cli.commands.perf:app", "Measure a given cluster."),
    LazyCommand(
        "bench", "oncelog_cli.commands.processes:bench", "Measure speed.", passes_through=True
    ),
)


def skip_own_options(group: Any) -> Any:
    """The group, which does not look at its own options when a command comes first: newer releases
    of Typer import pydantic to see that ``--help`` is not there, as long as all the rest takes."""
    parse = group.parse_args

    def parse_args(ctx: Any, args: list[str]) -> list[str]:
        known = group.params, group.add_help_option
        if args and not args[0].startswith("-"):
            group.params, group.add_help_option = [], False
        try:
            parsed: list[str] = parse(ctx, args)
        finally:
            group.params, group.add_help_option = known
        return parsed

    group.parse_args = parse_args
    for child in group.commands.values():
        if hasattr(child, "commands"):
            skip_own_options(child)
    return group


class LazyGroup(TyperGroup):
    """A group that knows names and one line of help each, and imports on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the table."""
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module and make its command."""
        for command in COMMANDS:
            if command.name == cmd_name:
                return load(command)
        return None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """From the table: the help of the whole imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.help) for command in COMMANDS])


def load(command: LazyCommand) -> Any:
    """The command that a line of the table names.

    :raises UsageError: it is not installed.
    """
    module_name, _, attribute = command.target.partition(":")
    try:
        target = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"'oncelog {command.name}' is not part of this installation") from None
    if not isinstance(target, typer.Typer):
        single = make_app()
        settings = PASS_THROUGH if command.passes_through else HELP_OPTIONS
        single.command(command.name, context_settings=settings)(with_shared_options(target))
        target = single
    share_options(target)
    made = typer.main.get_command(target)
    made.name = command.name
    return skip_own_options(made) if hasattr(made, "commands") else made


def share_options(application: typer.Typer) -> None:
    """Give every command of an application, and of the groups in it, the options that all have."""
    for command in application.registered_commands:
        if command.callback is not None:
            command.callback = with_shared_options(command.callback)
    callback = application.registered_callback
    if callback is not None and callback.callback is not None:
        callback.callback = with_shared_options(callback.callback)
    for group in application.registered_groups:
        if group.typer_instance is not None:
            share_options(group.typer_instance)


def make_app(**options: Any) -> typer.Typer:
    """A Typer application with the house's settings: plain help, no decorated tracebacks."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=HELP_OPTIONS,
        no_args_is_help=options.pop("no_args_is_help", False),
        **options,
    )


app = typer.Typer(
    cls=LazyGroup,
    name="oncelog",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP_OPTIONS,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"oncelog {version('oncelog')}")
        except PackageNotFoundError:
            print("oncelog (not installed)")
        raise typer.Exit(EXIT_OK)


def _show_tree(wanted: bool) -> None:
    if wanted:
        import json

        from oncelog_cli.command_tree import command_tree

        print(json.dumps(command_tree(), indent=2))
        raise typer.Exit(EXIT_OK)


@app.callback(invoke_without_command=False)
def oncelog(
    version: bool = typer.Option(
        False, "--version", help="Show the version.", is_eager=True, callback=_show_version
    ),
    help_json: bool = typer.Option(
        False,
        "--help-json",
        help="Show every command with its options, as JSON.",
        is_eager=True,
        callback=_show_tree,
    ),
) -> None:
    """Oncelog: a replicated commit log with exactly-once delivery.

    Exit codes: 0 all went well, 1 something failed, 2 the command line is wrong, 10 it ran and
    found something that is not healthy, 130 Ctrl+C.
    """


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    :raises Exception: what nobody expected; a traceback helps then.
    """
    render.CURRENT.set(None)
    render.REQUESTED.set(tuple(arguments))
    try:
        group = skip_own_options(typer.main.get_command(app))
        code = group.main(args=list(arguments), prog_name="oncelog", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        expected = exit_code_of(error)
        if expected is None:
            raise
        return expected
    # A command returns nothing; what comes back as a number is the code of a typer.Exit.
    return code if isinstance(code, int) else EXIT_OK


def main() -> None:
    """The entry point of the installed command."""
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
