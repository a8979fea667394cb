"""The poller alone asks for what all pages show; what it costs does not grow with who looks.

Rules: a question is under way once at a time. It begins again after its period, and after at least
60 times as long as it took, so that it costs at most 1.7 % of a core; 10 times are enough while
somebody waits for the answer. While nobody has looked for a minute, its period is six times as
long, and it rests for 2,000 times as long as it took: it is asked anew for whoever comes then.
Topics are asked for in slices, so that no answer holds the loop for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from oncelog import Admin
from oncelog.admin.results import LogDirDescription, TopicDescription
from oncelog_cli.documents.answer import Answer, Failure, Failures
from oncelog_cli.documents.cluster import min_insync_replicas
from oncelog_cli.documents.events import described_events
from oncelog_cli.documents.groups import described_groups, listed_groups
from oncelog_cli.documents.known_moves import known_moves
from oncelog_cli.documents.transactions import listed_transactions
from oncelog_console.rates import TopicRates, last_committed
from oncelog_console.snapshot import Fact, Snapshot
from oncelog_protocol.errors import ApiError, OncelogError
from oncelog_runtime.clock import WallClock
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

COST = 60
"""A question rests for so many times its duration."""
WANTED_COST = 10
"""It rests only so long while somebody waits for it, who has changed something."""
UNWATCHED_S = 60.0
"""After so long without a look, questions are asked more rarely."""
UNWATCHED_FACTOR = 6
"""Their periods are so many times as long then."""
UNWATCHED_COST = 2_000
"""They rest for so many times their duration then: four dear ones cost 0.2 % of a core."""
OLD_MS = 3_000
"""A fact may be older than its period by so much before anybody waits for it."""
CATCH_UP_S = 1.0
"""Nobody waits longer than this for a fact."""
REFRESH_S = 1.0
"""Nobody can have a question asked more often than this."""
HANGING_S = 300
"""Transactions that hang are looked for so seldom: they have been silent for much longer."""
SLICE_TOPICS = 50
"""So many topics are asked for at once: an answer of more would hold the loop for long."""
SLICE_GROUPS = 50
DESCRIBE_MS = 1_000
"""A coordinator that has not described its groups in this time is left out until the next time."""
ALIVE_MS = 5_000
"""A cluster that does not say in this time who is there counts as silent."""

Said = tuple[Any, Sequence[Failure]]
"""An answer's value, and what it lacks."""


@dataclass(frozen=True, slots=True)
class Question:
    """One fact of the snapshot is asked for like this."""

    fact: str
    """The name of the snapshot's field."""
    every_s: float
    ask: Callable[[], Awaitable[Said]]
    is_dear: bool = False
    """Whether all leaders are asked about all partitions: it is not asked anew with the others."""


class Poller:
    """It keeps a snapshot of one cluster. Call ``start`` once and ``close`` once.

    :param admin: it asks as the console's own user.
    :param followed: returns which of the groups that exist are to be described all the time; it
        gets the wall clock too.
    :param hanging: looks for transactions that hang; None: nobody does.
    """

    def __init__(
        self,
        admin: Admin,
        clock: WallClock,
        followed: Callable[[Sequence[str], int], Sequence[str]] = lambda _names, _now_ms: (),
        hanging: Callable[[], Awaitable[Answer]] | None = None,
    ) -> None:
        self._admin = admin
        self._followed = followed
        self._clock = clock
        self._tasks = Tasks("poller")
        self._snapshot = Snapshot(began_ms=clock.now_ms())
        self._rates = TopicRates()
        self._answered = asyncio.Condition()
        self._looked_s = float("-inf")
        self._told: set[str] = set()
        self._watchers: list[Callable[[Snapshot], None]] = []
        self._questions = [
            Question("cluster", 2, self._cluster),
            Question("topics", 5, self._topics),
            Question("log_dirs", 5, self._log_dirs),
            Question("min_isr", 60, self._min_isr),
            Question("moves", 5, self._moves),
            Question("groups", 5, partial(_said, partial(listed_groups, admin))),
            Question("described_groups", 5, self._described_groups),
            Question("transactions", 5, partial(_said, partial(listed_transactions, admin))),
            Question("events", 5, partial(_said, partial(described_events, admin))),
        ]
        if hanging is not None:
            ask = partial(_said, hanging)
            self._questions.append(Question("hanging", HANGING_S, ask, is_dear=True))
        self._wanted = {question.fact: asyncio.Event() for question in self._questions}

    @property
    def seen(self) -> Snapshot:
        """Return what is known now."""
        return self._snapshot

    # ------------------------------------------------------------------------------ looking

    def watch(self, watcher: Callable[[Snapshot], None]) -> None:
        """Have somebody called with every new snapshot: a history of figures, for example."""
        self._watchers.append(watcher)

    def start(self) -> None:
        """Begin to ask."""
        for question in self._questions:
            self._tasks.spawn(question.fact, self._ask_for_ever(question))

    async def unreached(self, error: OncelogError) -> None:
        """Note that nothing can be asked yet, since no broker could be connected to."""
        await self._keep("cluster", self._unknown("cluster", error))

    async def close(self) -> None:
        """Ask nothing any more."""
        await self._tasks.close()

    def looked(self) -> bool:
        """Note that somebody looks: questions are asked at their usual period from now on.

        It returns whether nobody had looked for a while.
        """
        now_s = asyncio.get_running_loop().time()
        rested = now_s - self._looked_s > UNWATCHED_S
        self._looked_s = now_s
        if rested:
            self.refresh()
        return rested

    async def catch_up(self) -> None:
        """Note that somebody looks; wait a moment for facts that are old since nobody did.

        Where somebody did, facts that are old cannot be asked for more often: nobody waits.
        """
        now_ms = self._clock.now_ms()
        late = [each for each in self._questions if self._age_ms(each, now_ms) > OLD_MS]
        if self.looked() and late:
            self.refresh(*(each.fact for each in late))
            awaited = [each.fact for each in late if not each.is_dear]
            await self.until(lambda seen: all(_is_newer(seen, awaited, now_ms)), CATCH_UP_S)

    def _age_ms(self, question: Question, now_ms: int) -> float:
        """Return by how much a fact is older than its period."""
        fact: Fact[Any] = getattr(self._snapshot, question.fact)
        return 0 if fact.asked_ms is None else now_ms - fact.asked_ms - 1000 * question.every_s

    def refresh(self, *facts: str) -> None:
        """Ask now, for some facts or for all that are not dear; at most once a second."""
        for name in facts or [each.fact for each in self._questions if not each.is_dear]:
            self._wanted[name].set()

    async def until(self, shows: Callable[[Snapshot], bool], timeout_s: float) -> bool:
        """Wait until the snapshot shows something; return whether it does in time.

        Questions are asked meanwhile as often as they may be.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not shows(self._snapshot):
                    self.refresh()
                    async with self._answered:
                        await self._answered.wait()
        except TimeoutError:
            return shows(self._snapshot)
        return True

    # ------------------------------------------------------------------------------ asking

    async def _ask_for_ever(self, question: Question) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wanted = self._wanted[question.fact]
            wanted.clear()
            began_s = loop.time()
            await self._ask(question)
            took_s = loop.time() - began_s
            pauses = pauses_after(took_s, question.every_s)
            await asyncio.sleep(pauses.wanted_s)
            watched = loop.time() - self._looked_s <= UNWATCHED_S
            rest_s = (pauses.watched_s if watched else pauses.unwatched_s) - pauses.wanted_s
            if rest_s > 0:
                try:
                    async with asyncio.timeout(rest_s):
                        await wanted.wait()
                except TimeoutError:
                    pass

    async def _ask(self, question: Question) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            value, missing = await question.ask()
        except OncelogError as error:
            fact = self._unknown(question.fact, error)
        else:
            self._told.discard(question.fact)
            took_s = loop.time() - began_s
            fact = Fact(value, self._clock.now_ms(), took_s, missing=tuple(missing))
        await self._keep(question.fact, fact)

    def _unknown(self, name: str, error: OncelogError) -> Fact[Any]:
        """Return a fact that nobody told this time, with what was known before.

        One line of the log says so when it begins to be unknown, and not one each second.
        """
        if name not in self._told:
            self._told.add(name)
            logger.warning("console_cluster_silent", fact=name, error=error)
        known: Fact[Any] = getattr(self._snapshot, name)
        return replace(known, error=reason_text(error), refused=isinstance(error, ApiError))

    async def _keep(self, name: str, fact: Fact[Any]) -> None:
        changed: dict[str, Any] = {name: fact}
        snapshot: Snapshot = replace(self._snapshot, **changed)
        cluster, dirs = snapshot.cluster, snapshot.log_dirs
        if name == "cluster" and cluster.value is not None and not cluster.error:
            alive = {broker.broker_id: cluster.asked_ms or 0 for broker in cluster.value.brokers}
            snapshot = replace(snapshot, brokers_seen_ms={**snapshot.brokers_seen_ms, **alive})
        if name == "log_dirs" and dirs.value is not None and not dirs.error:
            self._rates.look(asyncio.get_running_loop().time(), dirs.value, snapshot.topics.value)
            committed = last_committed(snapshot.committed, dirs.value, snapshot.topic_list)
            snapshot = replace(snapshot, rates=self._rates.known(), committed=committed)
        # Who is there is asked for most often; judging 10,000 partitions anew takes 8 ms.
        others = cluster.value != self._snapshot.cluster.value
        if name in ("topics", "log_dirs", "min_isr", "moves") or (name == "cluster" and others):
            snapshot = snapshot.judged()
        self._snapshot = snapshot
        for watcher in self._watchers:
            watcher(snapshot)
        async with self._answered:
            self._answered.notify_all()

    # ------------------------------------------------------------------------------ questions

    async def _cluster(self) -> Said:
        return await self._admin.describe_cluster(timeout_ms=ALIVE_MS), ()

    async def _topics(self) -> Said:
        names = await self._admin.list_topics(include_internal=True)
        found: list[TopicDescription] = []
        for some in slices(names):
            found += [each for each in await self._admin.describe_topics(some) if not each.error]
            await asyncio.sleep(0)
        return tuple(found), ()

    async def _log_dirs(self) -> Said:
        cluster = self._snapshot.cluster.value or await self._admin.describe_cluster()
        brokers = [broker.broker_id for broker in cluster.brokers]
        known = [topic.topic for topic in self._snapshot.topics.value or ()]
        failures = Failures()
        whole: dict[tuple[int, str], LogDirDescription] = {}
        for some in slices(known) if len(known) > SLICE_TOPICS else [None]:
            for item in await self._admin.describe_log_dirs(brokers, topics=some):
                key = (item.broker_id, item.path)
                before = whole.get(key)
                if before is not None:
                    item = replace(item, replicas=(*before.replicas, *item.replicas))
                whole[key] = item
            await asyncio.sleep(0)
        failures.sound(whole.values(), lambda item: f"broker {item.broker_id} {item.path}".rstrip())
        return tuple(whole.values()), failures

    async def _min_isr(self) -> Said:
        topics = self._snapshot.topics.value
        names = (
            await self._admin.list_topics(include_internal=True)
            if topics is None
            else [topic.topic for topic in topics]
        )
        return await min_insync_replicas(self._admin, names), ()

    async def _moves(self) -> Said:
        return await known_moves(self._admin), ()

    async def _described_groups(self) -> Said:
        listed = [row["group"] for row in self._snapshot.group_rows]
        names = self._followed(listed, self._clock.now_ms())
        some = [names[first : first + SLICE_GROUPS] for first in range(0, len(names), SLICE_GROUPS)]
        answers = await asyncio.gather(
            *(described_groups(self._admin, each, timeout_ms=DESCRIBE_MS) for each in some)
        )
        rows = [row for answer in answers for row in answer.document["groups"]]
        failures = [failure for answer in answers for failure in answer.failures]
        return Answer({"groups": rows}, failures), failures


async def _said(ask: Callable[[], Awaitable[Answer]]) -> Said:
    """Ask for a document of the command line; what it lacks is what failed."""
    answer = await ask()
    return answer, answer.failures


@dataclass(frozen=True, slots=True)
class Pauses:
    """They say for how many seconds a question rests."""

    wanted_s: float
    """While somebody waits for it."""
    watched_s: float
    """While somebody has looked within the last minute."""
    unwatched_s: float
    """While nobody has."""


def pauses_after(took_s: float, every_s: float) -> Pauses:
    """Return how long a question rests that took so long; its usual period is ``every_s``."""
    return Pauses(
        max(REFRESH_S, WANTED_COST * took_s),
        max(every_s, COST * took_s),
        max(UNWATCHED_FACTOR * every_s, UNWATCHED_COST * took_s),
    )


def reason_text(error: OncelogError) -> str:
    """Return why nobody answered, without saying again that nobody did."""
    text = str(error).removeprefix("no broker answered; ")
    return text or type(error).__name__


def _is_newer(seen: Snapshot, facts: Sequence[str], than_ms: int) -> Iterator[bool]:
    """Yield for each fact whether it was asked after a time, or cannot be asked."""
    for name in facts:
        fact: Fact[Any] = getattr(seen, name)
        yield bool(fact.error) or (fact.asked_ms or 0) >= than_ms


def slices(names: Sequence[str]) -> list[Sequence[str]]:
    """Cut names into parts of which each may be asked for at once; there is at least one part."""
    return [
        names[first : first + SLICE_TOPICS] for first in range(0, max(len(names), 1), SLICE_TOPICS)
    ]
