"""A command runs in asyncio, and its errors become exit codes and lines for the shell.

Rules: an expected error is one line on stderr and an exit code, never a traceback; with ``--json``
the document on stdout says it as well. An unexpected one keeps its traceback: it is a defect.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, overload

from oncelog_cli import render, typed
from oncelog_cli.exits import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    CommandError,
    UsageError,
)

T = TypeVar("T")


def run(command: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end; Ctrl+C and SIGTERM cancel it, so that it closes what it opened."""
    import asyncio  # 20 ms that ``oncelog --help`` does not pay

    try:
        return asyncio.run(_until_terminated(command))
    except (KeyboardInterrupt, _TerminatedError):
        render.tell_document(CommandError("interrupted"))
        raise typed.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError as error:
        # click would end with 1 and no word, whichever pipe it was.
        code = exit_code_of(error)
        raise typed.Exit(code) from None


def own_environment() -> dict[str, str]:
    """Return an environment in which a program finds what this process finds.

    That is so however this process has come by its path.
    """
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def become(command: list[str], environment: Mapping[str, str]) -> None:
    """Take the place of this process: signals, and the exit code, are the program's own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)


class _TerminatedError(Exception):
    """SIGTERM came, and what was under way is cancelled."""


async def _until_terminated(command: Coroutine[Any, Any, T]) -> T:
    """SIGTERM does what Ctrl+C does, also where SIGINT is ignored (a script's background job). In
    another thread than the main one signals are others'."""
    import asyncio

    came = False
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        nonlocal came
        came = True
        task.cancel()

    main = threading.current_thread() is threading.main_thread()
    if main:
        loop.add_signal_handler(signal.SIGTERM, end)
    try:
        return await command
    except asyncio.CancelledError:
        if came:
            raise _TerminatedError from None
        raise
    finally:
        if main:
            loop.remove_signal_handler(signal.SIGTERM)


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
    """The exit code of what click itself raises, said in one line; None for anything else."""
    if isinstance(error, typed.Abort):
        if isinstance(error.__cause__, KeyboardInterrupt):
            return EXIT_INTERRUPTED
        render.report(CommandError("aborted"))
        return EXIT_FAILED
    if not isinstance(error, typed.ClickError):
        return None
    message = " ".join(error.format_message().split())
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
    """Return whether the pipe that broke is our standard output, not a connection.

    If so, silence it: what is still buffered goes nowhere, or the interpreter complains at its end.
    """
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
