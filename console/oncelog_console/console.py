"""The parts of a console are made, started and ended together here.

Rules: a console starts without its cluster, and tries until a broker is there. Only what can never
work, such as an option that is none, ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from oncelog.errors import ConfigurationError, HandshakeError
from oncelog_cli.documents.answer import Answer
from oncelog_console.browsing import Browsing
from oncelog_console.clients import ClusterClients
from oncelog_console.group_log import GroupLogs
from oncelog_console.hanging import hanging_everywhere
from oncelog_console.history import FigureHistory
from oncelog_console.plans import Plans
from oncelog_console.poller import Poller, reason_text
from oncelog_console.rights import KnownRights
from oncelog_console.search import Searches
from oncelog_console.sessions import Sessions
from oncelog_console.settings import ConsoleSettings
from oncelog_console.snapshot import Fact, Snapshot
from oncelog_console.tables import Tables
from oncelog_console.tails import Tails
from oncelog_protocol.errors import OncelogError
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.tasks import Tasks

PARTITIONS_A_TURN = 500
"""So many partitions of groups are remembered before others have the loop; a group counts as one
more."""
STARTS_S = 1.0
"""The start waits so long for the first broker; pages are there afterwards in any case."""
TRIES_AGAIN_S = 1.0
REFUSED_S = 30.0
"""Brokers that refuse who the console says it is are tried again after so long."""


class UnreachedError(OncelogError):
    """No broker of the cluster has answered since the console was started."""


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
        self._tried = asyncio.Event()
        self._unreached: OncelogError | None = UnreachedError("nobody was asked yet")
        self._remembered: Fact[Answer] | None = None
        self.history = FigureHistory(settings.history_ms)
        self.poller = Poller(
            self.admin, clock, self.history.wanted, partial(hanging_everywhere, clients)
        )
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
        """Begin to connect to the cluster, and to ask; wait a moment for the first broker.

        :raises ConfigurationError: an option of the clients cannot work.
        """
        self._tasks.spawn("connect", self._connect())
        try:
            async with asyncio.timeout(STARTS_S):
                await self._tried.wait()
        except TimeoutError:
            pass
        if isinstance(self._unreached, ConfigurationError):
            error = self._unreached
            await self.__aexit__()
            raise error
        return self

    @property
    def reached(self) -> bool:
        """Return whether a broker has answered since the start: before, nobody can be asked."""
        return self._unreached is None

    def check_reached(self) -> None:
        """Raise unless a broker has answered since the start.

        :raises UnreachedError: nobody can be asked yet; the text says why.
        """
        if self._unreached is not None:
            why = reason_text(self._unreached)
            raise UnreachedError(f"no broker answered, and this is asked of brokers: {why}")

    async def _connect(self) -> None:
        while True:
            try:
                await self.admin.start()
                break
            except OncelogError as error:
                self._unreached = error
                await self.poller.unreached(error)
                self._tried.set()
                refused = isinstance(error, HandshakeError)
            await asyncio.sleep(REFUSED_S if refused else TRIES_AGAIN_S)
        self._unreached = None
        self.poller.start()
        self._tried.set()

    async def __aexit__(self, *_: object) -> None:
        await self.tails.close()
        await self.searches.close()
        await self.sessions.close()
        await self._tasks.close()
        await self.poller.close()
        await self.group_logs.close()
        await self.admin.close()

    def _remember(self, seen: Snapshot) -> None:
        fact = seen.described_groups
        if fact.error:
            self.history.missed_all(self.clock.now_ms())
        elif fact.value is not None and fact.asked_ms is not None and fact is not self._remembered:
            self._remembered = fact
            self._tasks.spawn("history", self._take(fact.value, fact.asked_ms))

    async def remember(self, rows: Iterable[Mapping[str, Any]], asked_ms: int) -> None:
        """Put rows of ``groups describe`` into the history, without holding the loop for long."""
        left = PARTITIONS_A_TURN
        for row in rows:
            for count in self.history.seeing(row, asked_ms):
                left -= count + 1
                if left <= 0:
                    await asyncio.sleep(0)
                    left = PARTITIONS_A_TURN

    async def _take(self, answer: Answer, asked_ms: int) -> None:
        """Put what groups were described as, and which were not, into the history."""
        await self.remember(answer.document["groups"], asked_ms)
        for failure in answer.failures:
            self.history.missed(failure.item, asked_ms)
