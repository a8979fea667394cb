"""The ``oncelog`` command is a group of sub-commands; it starts and ends here.

Which sub-commands there are stands in ``command_table``.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from oncelog_cli import render, typed
from oncelog_cli.command_table import COMMANDS, load
from oncelog_cli.exits import EXIT_INTERRUPTED, EXIT_OK, UsageError
from oncelog_cli.runner import exit_code_of


class LazyGroup(typed.CommandGroup):
    """The group knows names and one line of help each, and imports on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module and make its command."""
        found = next((command for command in COMMANDS if command.name == cmd_name), None)
        return None if found is None else load(found)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant.

        :raises UsageError: there is none; names that are nearly the same are suggested.
        """
        name = args[0] if args else ""
        near = difflib.get_close_matches(name, self.list_commands(ctx), cutoff=0.7)
        if near and name not in self.list_commands(ctx) and not name.startswith("-"):
            raise UsageError(
                f"No such command {name!r}. Did you mean {' or '.join(map(repr, near))}?"
                " (see 'oncelog --help')"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands from the table: the help of the whole imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.help) for command in COMMANDS])


app = typed.App(cls=LazyGroup, name="oncelog")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"oncelog {version('oncelog')}"
    except PackageNotFoundError:
        return "oncelog (not installed)"


def _tree() -> str:
    import json

    from oncelog_cli.command_tree import command_tree

    return json.dumps(command_tree(app.made()), indent=2)


def _completion_script() -> str:
    from oncelog_cli import completion

    return completion.script(app.made())


def _install_completion() -> str:
    from oncelog_cli import completion

    return completion.install(app.made())


def _telling(name: str, answer: Callable[[], str], help: str) -> typed.Option:
    """Return an option that prints an answer instead of running a command."""

    def tell(wanted: bool) -> None:
        if wanted:
            print(answer())
            raise typed.Exit(EXIT_OK)

    return typed.Option(name, help=help, is_eager=True, callback=tell)


VERSION = _telling("--version", _version, "Show the version.")
HELP_JSON = _telling("--help-json", _tree, "Show every command with its options, as JSON.")
INSTALL_COMPLETION = _telling(
    "--install-completion",
    _install_completion,
    "Make the shell that you use ($SHELL) complete commands and names.",
)
SHOW_COMPLETION = _telling(
    "--show-completion", _completion_script, "Show what --install-completion would install."
)


@app.callback()
def oncelog(
    version: Annotated[bool, VERSION] = False,
    help_json: Annotated[bool, HELP_JSON] = False,
    install_completion: Annotated[bool, INSTALL_COMPLETION] = False,
    show_completion: Annotated[bool, SHOW_COMPLETION] = False,
) -> None:
    """Oncelog is a replicated commit log with exactly-once delivery.

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
        code = app.made().main(args=list(arguments), prog_name="oncelog", standalone_mode=False)
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
    # A command returns nothing; what comes back as a number is the code of an Exit.
    return code if isinstance(code, int) else EXIT_OK


def main() -> None:
    """Run the installed command: this is its entry point."""
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
