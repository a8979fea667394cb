"""The parts of a console are made, started and ended together here."""

from __future__ import annotations

from oncelog_console.clients import ClusterClients
from oncelog_console.group_log import GroupLogs
from oncelog_console.history import History
from oncelog_console.poller import Poller
from oncelog_console.sessions import Sessions
from oncelog_console.settings import ConsoleSettings
from oncelog_console.snapshot import Snapshot
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy


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
        self.history = History(settings.history_ms)
        self.poller = Poller(self.admin, clock, self.history.wanted)
        self.poller.watch(self._remember)
        self.group_logs = GroupLogs(self.admin, clients, clock, self.history)
        self.sessions = Sessions(clients, self.admin, settings.token, clock, entropy)

    async def __aenter__(self) -> Console:
        """Connect to the cluster, and begin to ask.

        :raises OncelogError: no broker answers.
        """
        await self.admin.start()
        self.poller.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sessions.close()
        await self.poller.close()
        await self.group_logs.close()
        await self.admin.close()

    def _remember(self, seen: Snapshot) -> None:
        fact = seen.described_groups
        if fact.error:
            self.history.missed_all(self.clock.now_ms())
        elif fact.value is not None and fact.asked_ms is not None:
            self.history.take(fact.value, fact.asked_ms)
