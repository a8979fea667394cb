"""This is the list of exit codes, with the meaning of each and the errors that lead to them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNHEALTHY = 10
"""What was asked could be found out, and it is bad news: a script can tell that from a failure."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""

MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        EXIT_OK: "all went well",
        EXIT_FAILED: "something failed: an item, or the command as a whole",
        EXIT_USAGE: "the command line is wrong; nothing was done",
        EXIT_UNHEALTHY: "the command ran, and what it looked at is not healthy",
        EXIT_INTERRUPTED: "Ctrl+C",
    }
)
"""Every code that ``oncelog`` itself ends with. Programs that it becomes have their own."""


class UsageError(Exception):
    """The command line does not make sense: exit code 2."""

    name = "USAGE"


class CommandError(Exception):
    """A command cannot be carried out, for a reason that its text names: exit code 1."""

    name = "FAILED"
