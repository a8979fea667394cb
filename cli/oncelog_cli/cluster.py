"""A command gets the cluster that its command line means as one object, and asks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from oncelog_cli import clients
from oncelog_cli.options import bootstrap_servers
from oncelog_cli.runner import run

if TYPE_CHECKING:
    from oncelog import Admin

T = TypeVar("T")


class NamedCluster:
    """The cluster is found when it is first needed: mistakes in a command line are told first."""

    def __init__(self, named: str | None) -> None:
        self.named = named
        """What ``--bootstrap`` says, or None."""

    @cached_property
    def servers(self) -> str:
        """Return addresses of its brokers.

        :raises UsageError: no cluster is named; the text says how to name one.
        """
        return bootstrap_servers(self.named)

    def ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        """Return the answer to a question, for which an admin client is opened and closed.

        :raises OncelogError: there is no answer.
        """
        servers = self.servers

        async def asked() -> T:
            async with clients.admin(servers) as admin:
                return await question(admin)

        return run(asked())
