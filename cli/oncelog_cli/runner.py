"""From the shell into asyncio and back: running a command, and what its errors mean to a shell.

Rules: an expected error is one line on stderr and an exit code, never a traceback; with ``--json``
the document on stdout says it as well. An unexpected one keeps its traceback: it is a defect.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar, overload

import typer

from oncelog_cli import render
from oncelog_cli.exits import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    CommandError,
    UsageError,
)

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_USAGE",
    "CommandError",
    "exit_code_of",
    "run",
]

T = TypeVar("T")


def run(command: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end; Ctrl+C cancels it, so that it closes what it opened."""
    import asyncio  # 20 ms that ``oncelog --help`` does not pay

    try:
        return asyncio.run(command)
    except KeyboardInterrupt:
        render.tell_document(CommandError("interrupted"))
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError as error:
        # Typer would end with 1 and no word, whichever pipe it was.
        code = exit_code_of(error)
        raise typer.Exit(code) from None


@overload
def exit_code_of(error: OSError) -> int: ...
@overload
def exit_code_of(error: Exception) -> int | None: ...
def exit_code_of(error: Exception) -> int | None:
    """Say what went wrong; None for an error that nobody expected."""
    if isinstance(error, BrokenPipeError) and _stdout_is_gone():
        # The reader has seen enough (``oncelog consume ... | head``): nothing to say.
        return EXIT_OK
    code = _usage_code_of(error)
    if code is not None:
        return code
    from oncelog.errors import ConfigurationError, OncelogError
    from oncelog_cli.local.process import LocalClusterError

    if isinstance(error, UsageError | ConfigurationError):
        render.report(error)
        return EXIT_USAGE
    if isinstance(error, CommandError | OncelogError | LocalClusterError | OSError):
        render.report(error)
        return EXIT_FAILED
    return None


def _usage_code_of(error: Exception) -> int | None:
    """The exit code of what Typer itself raises, said in one line; None for anything else.

    Known by its face: the classes live in click or in Typer, depending on Typer's release.
    """
    if isinstance(error, typer.Abort):
        render.report(CommandError("aborted"))
        return EXIT_FAILED
    say = getattr(error, "format_message", None)
    if say is None:
        return None
    message = " ".join(str(say()).split())
    context = getattr(error, "ctx", None)
    if context is not None:
        render.requested_output(context)
    render.tell_document(UsageError(message))
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help() if context is not None else message, file=sys.stderr)
    elif context is not None:
        print(
            f"error: {message} (see '{context.command_path} --help')",
            file=sys.stderr,
        )
    else:
        print(f"error: {message}", file=sys.stderr)
    return EXIT_USAGE


def _stdout_is_gone() -> bool:
    """Whether the pipe that broke is our standard output, not a connection; if so, silence it:
    what is still buffered goes nowhere, or the interpreter complains at its end."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return False  # standard output is not a file at all
    poll = select.poll()
    poll.register(descriptor, 0)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        return False
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
    return True
