"""A group of commands knows those of another group whose name is nearly the same.

``oncelog broker`` runs a process, and ``oncelog brokers`` administers those of a cluster. Whoever
takes one for the other is told the line that was meant.
"""

from __future__ import annotations

import shlex
from typing import Any, ClassVar

from oncelog_cli import typed
from oncelog_cli.exits import UsageError


class OtherGroup(typed.CommandGroup):
    """It is a group whose commands are easily looked for in the other one, and the reverse."""

    other: ClassVar[str]
    """The name of the other group."""
    theirs: ClassVar[tuple[str, ...]]
    """These commands are there and not here."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant.

        :raises UsageError: it is one of the other group.
        """
        if args and args[0] in self.theirs:
            line = shlex.join(["oncelog", self.other, *args])
            raise UsageError(f"{args[0]!r} is a command of 'oncelog {self.other}': {line}")
        return super().resolve_command(ctx, args)
