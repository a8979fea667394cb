"""Searches run in processes of their own; the console starts them, watches them and ends them.

Rules
-----
* At most ``SEARCHES_MAX`` run at a time, whoever asks; one more is refused, with words.
* A search belongs to a session and to an address: who asks again sees the same search.
* It ends when it is told to, when it is done, or when nobody has looked for ``UNSEEN_S``. What it
  has found is kept for some minutes.
* Whatever happens to the process, the console lives, and says what happened.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from oncelog_cli.exits import EXIT_FAILED
from oncelog_console.clients import ClusterClients
from oncelog_console.message_range import WantedRecords
from oncelog_console.process_limits import ProcessLimits, end_text
from oncelog_console.reading import ReadProgress, Row
from oncelog_console.search_worker import SearchOrders, encode_orders
from oncelog_console.tail import Tick, tick_of
from oncelog_console.workers import Worker, Workers
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

SEARCHES_MAX = 2
UNSEEN_S = 60.0
KEPT_S = 600.0
KEPT_MAX = 32
"""So many searches that are over are kept, for so long."""
PART_BYTES = 64 << 10
NEWS_S = 5.0
"""Who follows a search hears of it so often at least."""
PAUSE_S = 0.25
"""News of a search come no more often, but for its first row and its end."""
LINES_RECORDS_MAX = 100_000
"""A file of records has so many at most."""
WORKER = "oncelog_console.search_worker"


class SearchFailedError(Exception):
    """A search is over without having done what it should; the text says why."""


@dataclass(frozen=True, slots=True)
class SearchNews:
    """They say what was found since the last news, and how the search stood at that moment."""

    rows: tuple[Row, ...]
    progress: ReadProgress
    per_second: float
    done: str
    """As ``Search.done``; where it says something, these news are the last."""
    failure: str


@dataclass(slots=True)
class Search:
    """It is one search, with what it has found. Its process belongs to ``Searches``."""

    wanted: WantedRecords
    rows: list[Row] = field(default_factory=list)
    progress: ReadProgress = field(default_factory=ReadProgress)
    began_s: float = 0.0
    told_s: float = 0.0
    """Loop time of the last news."""
    seen_s: float = 0.0
    """Loop time at which somebody looked last."""
    done: str = ""
    """``end``: the range is read; ``rows``: enough was found; ``stopped``; ``failed``; else it
    runs."""
    failure: str = ""
    """Why it failed."""
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def per_second(self) -> float:
        """Return how many offsets were passed in a second."""
        took_s = self.told_s - self.began_s
        return self.progress.scanned / took_s if took_s > 0 else 0.0

    async def wait(self, known_rows: int, known_scanned: int, timeout_s: float) -> None:
        """Wait until more is known than that, or the search is over, or the time is."""

        def told() -> bool:
            return (
                bool(self.done)
                or len(self.rows) > known_rows
                or self.progress.scanned > known_scanned
            )

        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self.news:
                await self.news.wait_for(told)

    async def pause(self, known_rows: int, timeout_s: float) -> None:
        """Wait for so long; shorter where the search is over, or finds its very first row."""

        def matters() -> bool:
            return bool(self.done) or (known_rows == 0 and bool(self.rows))

        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self.news:
                await self.news.wait_for(matters)

    async def follow(self, known_rows: int = 0) -> AsyncGenerator[SearchNews, None]:
        """Yield what is found behind the first rows, until the search is over; it is looked at."""
        known_scanned = -1
        while True:
            await self.wait(known_rows, known_scanned, NEWS_S)
            # All is of one moment. What comes while these are sent, be it the end, is told next.
            rows, progress = tuple(self.rows[known_rows:]), self.progress
            news = SearchNews(rows, progress, self.per_second, self.done, self.failure)
            known_rows, known_scanned = known_rows + len(rows), progress.scanned
            self.seen_s = asyncio.get_running_loop().time()
            yield news
            if news.done:
                return
            await self.pause(known_rows, PAUSE_S)

    async def take(self, told: Mapping[str, Any]) -> None:
        """Take one line that the program of this search has said."""
        if "failed" in told:
            await self.finish("failed", told["failed"])
        elif "done" in told:
            await self.finish(told["done"])
        else:
            async with self.news:
                self.rows += [Row(**row) for row in told["rows"]]
                self.progress = ReadProgress(**told["progress"])
                self.told_s = asyncio.get_running_loop().time()
                self.news.notify_all()

    async def finish(self, done: str, failure: str = "") -> None:
        """Note that the search is over, and how; the first that says so is believed."""
        if self.done:
            return
        async with self.news:
            self.done, self.failure = done, failure
            self.news.notify_all()

    async def until_done(self, timeout_s: float) -> None:
        """Wait until the search is over, or the time is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self.news:
                await self.news.wait_for(lambda: bool(self.done))


class Searches:
    """They are all searches of one console. ``close`` ends them."""

    def __init__(self, limits: ProcessLimits | None = None) -> None:
        self._limits = limits or ProcessLimits()
        self._workers = Workers(SEARCHES_MAX, "searches")
        self._known: OrderedDict[tuple[str, WantedRecords], Search] = OrderedDict()
        self._running: dict[tuple[str, WantedRecords], Worker] = {}
        self._tasks = Tasks("searches")

    @property
    def running(self) -> int:
        """Return how many searches run now, files of records among them."""
        return self._workers.running

    def find(self, session_id: str, wanted: WantedRecords) -> Search | None:
        """Return the search of a session that is known for this; somebody looks at it now."""
        search = self._known.get((session_id, wanted))
        if search is not None:
            search.seen_s = asyncio.get_running_loop().time()
        return search

    def begin(self, session_id: str, clients: ClusterClients, wanted: WantedRecords) -> Search:
        """Return the search for this: the one that is known, or a new one.

        :raises TooManyWorkersError: others run.
        """
        known = self.find(session_id, wanted)
        if known is not None:
            return known
        orders = encode_orders(SearchOrders(clients, wanted, self._limits))
        worker = self._workers.take()
        now_s = asyncio.get_running_loop().time()
        search = Search(wanted, began_s=now_s, told_s=now_s, seen_s=now_s)
        key = (session_id, wanted)
        self._known[key] = search
        self._running[key] = worker
        self._forget_old()
        self._tasks.spawn("search", self._run(key, search, orders, worker))
        return search

    async def stop(self, session_id: str, wanted: WantedRecords) -> None:
        """End a search; what it has found stays."""
        key = (session_id, wanted)
        worker = self._running.get(key)
        if worker is not None:
            await self._known[key].finish("stopped")
            worker.kill()

    def forget(self, session_id: str, wanted: WantedRecords) -> None:
        """Forget what a search has found, so that asking again searches again."""
        if (session_id, wanted) not in self._running:
            self._known.pop((session_id, wanted), None)

    async def lines(
        self, clients: ClusterClients, wanted: WantedRecords, records_max: int = LINES_RECORDS_MAX
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a search finds as JSON lines; leaving the loop ends the program.

        A search that fails ends with a line that is no record: it has the one field ``failed``.

        :raises TooManyWorkersError: others run.
        """
        orders = SearchOrders(clients, wanted, self._limits, "lines", records_max)
        encoded = encode_orders(orders)
        worker = self._workers.take()
        async with worker.running(WORKER, encoded) as said:
            while part := await said.read(PART_BYTES):
                yield part
            code, complaint = await worker.result()
        if code:
            why = complaint if code == EXIT_FAILED else end_text(code, self._limits)
            yield json.dumps({"failed": why}).encode() + b"\n"

    async def tail(
        self, clients: ClusterClients, wanted: WantedRecords
    ) -> AsyncGenerator[Tick, None]:
        """Yield what comes from now on and fits an expression; leaving the loop ends the program.

        :raises TooManyWorkersError: others run.
        :raises SearchFailedError: it failed.
        """
        encoded = encode_orders(SearchOrders(clients, wanted, self._limits, "tail"))
        worker = self._workers.take()
        async with worker.running(WORKER, encoded) as said:
            while line := await said.readline():
                told = json.loads(line)
                if "failed" in told:
                    raise SearchFailedError(told["failed"])
                yield tick_of(told)
            code, _ = await worker.result()
        raise SearchFailedError(end_text(code, self._limits))

    def prepare(self) -> None:
        """Expect a search soon: its program is started, and waits."""
        self._workers.prepare(WORKER)

    async def close(self) -> None:
        """End all searches."""
        await self._tasks.close()
        await self._workers.close()

    # ------------------------------------------------------------------------------ one search

    async def _run(
        self, key: tuple[str, WantedRecords], search: Search, orders: bytes, worker: Worker
    ) -> None:
        try:
            async with worker.running(WORKER, orders) as said:
                await self._listen(search, said)
                if search.done:
                    return
                code, complaint = await worker.result()
                logger.warning("console_search_failed", code=code, complaint=complaint[-500:])
                await search.finish("failed", end_text(code, self._limits))
        except Exception as error:
            await search.finish("failed", str(error) or type(error).__name__)
        finally:
            del self._running[key]

    async def _listen(self, search: Search, said: asyncio.StreamReader) -> None:
        """Take what a search says, until it says no more or nobody looks any more."""
        loop = asyncio.get_running_loop()
        while not search.done:
            try:
                async with asyncio.timeout_at(search.seen_s + UNSEEN_S):
                    line = await said.readline()
            except TimeoutError:
                if loop.time() >= search.seen_s + UNSEEN_S:
                    await search.finish("stopped", "nobody looked at it any more")
                    return
                continue
            if not line:
                return
            await search.take(json.loads(line))

    def _forget_old(self) -> None:
        """Forget searches that are over: those that nobody looked at, and the oldest."""
        now_s = asyncio.get_running_loop().time()
        over = [key for key in self._known if key not in self._running]
        for place, key in enumerate(over):
            if now_s - self._known[key].seen_s > KEPT_S or place < len(over) - KEPT_MAX:
                del self._known[key]
