"""Who follows the same topic in the same way shares one reader: viewers cost the cluster nothing.

Rules: a reader is there as long as somebody looks. A viewer that is slower than the reader misses
ticks, and is told how many records were in them. Users of the cluster share with nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from oncelog_cli.exits import CommandError
from oncelog_console.clients import ClusterClients
from oncelog_console.message_range import NEWEST, ROWS, WantedRecords
from oncelog_console.search import Searches, SearchFailedError
from oncelog_console.tail import Tick, ticks
from oncelog_console.workers import TooManyWorkersError
from oncelog_protocol.errors import OncelogError
from oncelog_runtime.tasks import Tasks

TAILS_MAX = 16
KEPT = 8
"""A viewer may be so many ticks behind, two seconds."""

Key = tuple[int, WantedRecords]


@dataclass(slots=True)
class _TailFeed:
    """It is one reader, with its last ticks."""

    last: deque[Tick] = field(default_factory=lambda: deque(maxlen=KEPT))
    count: int = 0
    """Ticks since the beginning."""
    arrived: int = 0
    """Records since the beginning."""
    viewers: int = 0
    failure: str = ""
    over: bool = False
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None


class Tails:
    """They are the readers of one console that follow topics. ``close`` ends them.

    :param searches: run those that have an expression, in programs of their own.
    """

    def __init__(self, searches: Searches) -> None:
        self._searches = searches
        self._feeds: dict[Key, _TailFeed] = {}
        self._tasks = Tasks("tails")

    @property
    def running(self) -> int:
        """Return how many readers there are."""
        return len(self._feeds)

    async def follow(
        self, clients: ClusterClients, wanted: WantedRecords
    ) -> AsyncGenerator[Tick, None]:
        """Yield what comes from now on.

        :raises TooManyWorkersError: others follow already, too many of them.
        :raises SearchFailedError: the reader has failed.
        """
        key = (id(clients), replace(wanted, start=NEWEST, end=None, rows=ROWS))
        feed = self._feeds.get(key)
        if feed is None:
            if len(self._feeds) >= TAILS_MAX:
                raise TooManyWorkersError(f"{TAILS_MAX} topics are being followed; close a page")
            feed = self._feeds[key] = _TailFeed()
            feed.task = self._tasks.spawn("tail", self._read(feed, clients, key[1]))
        feed.viewers += 1
        try:
            async for tick in _seen(feed):
                yield tick
        finally:
            feed.viewers -= 1
            if not feed.viewers:
                self._feeds.pop(key, None)
                assert feed.task is not None
                feed.task.cancel()

    async def close(self) -> None:
        """End all readers."""
        await self._tasks.close()

    async def _read(self, feed: _TailFeed, clients: ClusterClients, wanted: WantedRecords) -> None:
        source = (
            self._searches.tail(clients, wanted)
            if wanted.where
            else ticks(wanted, clients.consumer)
        )
        try:
            async with aclosing(source):
                async for tick in source:
                    async with feed.news:
                        feed.last.append(tick)
                        feed.count += 1
                        feed.arrived += tick.arrived
                        feed.news.notify_all()
        except (OncelogError, CommandError, SearchFailedError, TooManyWorkersError) as error:
            feed.failure = str(error) or type(error).__name__
        finally:
            feed.over = True
            async with feed.news:
                feed.news.notify_all()


async def _seen(feed: _TailFeed) -> AsyncIterator[Tick]:
    """Yield the ticks of a reader; the first one says that nothing is missed from there on."""
    count, arrived = feed.count, feed.arrived
    if count:
        yield Tick((), 0, 0)
    while True:
        async with feed.news:
            while feed.count == count and not feed.over:
                await feed.news.wait()
            news = min(feed.count - count, len(feed.last))
            fresh = list(feed.last)[len(feed.last) - news :]
            missed = feed.arrived - arrived - sum(tick.arrived for tick in fresh)
            count, arrived, over = feed.count, feed.arrived, feed.over
        for tick in fresh:
            yield replace(tick, arrived=tick.arrived + missed, unread=tick.unread + missed)
            missed = 0
        if over and not fresh:
            raise SearchFailedError(feed.failure or "nobody follows any more")
