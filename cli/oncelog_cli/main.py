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
from oncelog_cli.options import UsageError
from oncelog_cli.runner import EXIT_INTERRUPTED, EXIT_OK, exit_code_of

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
    LazyCommand("broker", "oncelog_cli.commands.processes:broker", "Run one broker here."),
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
        "cluster", "oncelog_cli.commands.cluster:cluster", "Show brokers, controller, listeners."
    ),
    LazyCommand("log-dirs", "oncelog_cli.commands.cluster:log_dirs", "Sizes of replicas on disk."),
    LazyCommand(
        "dump-log", "oncelog_cli.commands.processes:dump_log", "Show what segment files hold."
    ),
    LazyCommand(
        "pipeline", "oncelog_cli.commands.pipeline:app", "Run and check pipelines on Spark."
    ),
    LazyCommand("demo", "oncelog_cli.demo.command:demo", "Real data, a killed leader, a verdict."),
    LazyCommand(
        "bench", "oncelog_cli.commands.processes:bench", "Measure speed.", passes_through=True
    ),
)


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
        single.command(command.name, context_settings=settings)(target)
        target = single
    made = typer.main.get_command(target)
    made.name = command.name
    return made


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


@app.callback(invoke_without_command=False)
def oncelog(
    version: bool = typer.Option(
        False, "--version", help="Show the version.", is_eager=True, callback=_show_version
    ),
) -> None:
    """Oncelog: a replicated commit log with exactly-once delivery.

    Exit codes: 0 all went well, 1 something failed, 2 the command line is wrong.
    """


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    :raises Exception: what nobody expected; a traceback helps then.
    """
    render.CURRENT.set(None)
    try:
        group = typer.main.get_command(app)
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
