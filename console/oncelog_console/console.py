"""The parts of a console are made, started and ended together here."""

from __future__ import annotations

import asyncio

from oncelog_cli.documents.answer import Answer
from oncelog_console.browsing import Browsing
from oncelog_console.clients import ClusterClients
from oncelog_console.group_log import GroupLogs
from oncelog_console.history import FigureHistory
from oncelog_console.plans import Plans
from oncelog_console.poller import Poller
from oncelog_console.rights import KnownRights
from oncelog_console.search import Searches
from oncelog_console.sessions import Sessions
from oncelog_console.settings import ConsoleSettings
from oncelog_console.snapshot import Fact, Snapshot
from oncelog_console.tables import Tables
from oncelog_console.tails import Tails
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.tasks import Tasks

GROUPS_A_TURN = 20
"""So many groups are remembered before others have the loop."""


def _loop_s() -> float:
    return asyncio.get_running_loop().time()


class Console:
    """One process shows one cluster. ``async with`` starts and ends it.

    :param clients: they reach the cluster as the console's own user.
    """

    def __init__(
        self,
        clients: ClusterClients,
        settings: ConsoleSettings,
        clock: WallClock,
        entropy: Entropy,
    ) -> None:
        self.clients = clients
        self.settings = settings
        self.clock = clock
        self.entropy = entropy
        self.admin = clients.admin()
        self._tasks = Tasks("console")
        self._remembered: Fact[Answer] | None = None
        self.history = FigureHistory(settings.history_ms)
        self.poller = Poller(self.admin, clock, self.history.wanted)
        self.poller.watch(self._remember)
        self.group_logs = GroupLogs(self.admin, clients, clock, self.history)
        self.searches = Searches()
        self.tails = Tails(self.searches)
        self.browsing = Browsing()
        self.tables = Tables()
        self.plans = Plans(entropy, _loop_s, clock.now_ms)
        self.rights = KnownRights(self.admin, _loop_s)
        self.sessions = Sessions(clients, self.admin, settings.token, clock, entropy)

    async def __aenter__(self) -> Console:
        """Connect to the cluster, and begin to ask.

        :raises OncelogError: no broker answers.
        """
        await self.admin.start()
        self.poller.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.tails.close()
        await self.searches.close()
        await self.sessions.close()
        await self.poller.close()
        await self._tasks.close()
        await self.group_logs.close()
        await self.admin.close()

    def _remember(self, seen: Snapshot) -> None:
        fact = seen.described_groups
        if fact.error:
            self.history.missed_all(self.clock.now_ms())
        elif fact.value is not None and fact.asked_ms is not None and fact is not self._remembered:
            self._remembered = fact
            self._tasks.spawn("history", self._take(fact.value, fact.asked_ms))

    async def _take(self, answer: Answer, asked_ms: int) -> None:
        """Put what groups were described as into the history, without holding the loop for long."""
        for number, row in enumerate(answer.document["groups"]):
            self.history.saw(row, asked_ms)
            if number % GROUPS_A_TURN == GROUPS_A_TURN - 1:
                await asyncio.sleep(0)
        for failure in answer.failures:
            self.history.missed(failure.item, asked_ms)
