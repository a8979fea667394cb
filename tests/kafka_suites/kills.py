"""Brokers are killed with SIGKILL in turns, and started again, while programs of others run.

One broker at a time is down. Whose turn it is goes by what a broker is at that moment: the leader
of a partition, a follower, the coordinator of an open transaction, that of a group, the controller.
After Kafka's own system tests, which bounce brokers hard under ``TransactionalMessageCopier``
(transactions_test.py).
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from kafka_suites.fetch import Report
from oncelog.blocking import Admin
from oncelog.errors import OncelogError
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.toml_writer import Value

SETTINGS: Mapping[str, Value] = MappingProxyType(
    {
        "min_insync_replicas": 2,
        "zookeeper_session_timeout_ms": 3000,
        "replica_lag_time_max_ms": 3000,
    }
)
"""What is acknowledged is on two brokers; and it is noticed soon that one is gone."""
DOWN_S = (0.0, 2.0)
"""So long a killed broker stays down."""
PAUSE_S = (1.0, 4.0)
"""So long all brokers serve between two kills."""
ROUNDS = 2
"""So often each kind has its turn, if the programs run so long; then they come to their end."""
NAMED_WITHIN_S = 60.0
"""Within this time there is a broker of the kind whose turn it is."""
POLL_S = 0.1

Chooser = Callable[[Admin, random.Random], int | None]
"""It returns a broker of a kind, or None while there is none."""


class TooFewKillsError(Exception):
    """The program is over, and no broker of some kind was killed: it was not under fire."""


def leader(admin: Admin, chance: random.Random) -> int | None:
    """Return who leads a partition of a topic of clients."""
    topics = [topic for topic in admin.describe_topics() if not topic.internal]
    leaders = [each.leader for topic in topics for each in topic.partitions if each.leader >= 0]
    return chance.choice(leaders) if leaders else None


def follower(admin: Admin, chance: random.Random) -> int | None:
    """Return who is in sync with the leader of a partition, and leads the fewest partitions."""
    partitions = [p for t in admin.describe_topics() if not t.internal for p in t.partitions]
    led = Counter(each.leader for each in partitions)
    following = [number for each in partitions for number in each.isr if number != each.leader]
    return min(following, key=lambda number: (led[number], chance.random()), default=None)


def transaction_coordinator(admin: Admin, chance: random.Random) -> int | None:
    """Return who coordinates a transaction that is open."""
    found = admin.list_transactions(states=["Ongoing"])
    return chance.choice([each.coordinator for each in found]) if found else None


def group_coordinator(admin: Admin, chance: random.Random) -> int | None:
    """Return who coordinates a group."""
    found = admin.list_groups()
    return chance.choice([each.coordinator for each in found]) if found else None


def controller(admin: Admin, chance: random.Random) -> int | None:
    """Return who is the controller."""
    number = admin.describe_cluster().controller_id
    return number if number >= 0 else None


TURNS: tuple[Chooser, ...] = (
    leader,
    transaction_coordinator,
    follower,
    controller,
    group_coordinator,
)


class Kills:
    """A thread kills brokers of a cluster and starts them again, some rounds or until it is ended.

    :param groups: the first kill waits until there are so many groups: topics cannot be made with
        three replicas while one of three brokers is down, in Kafka no more than here.
    """

    def __init__(self, cluster: LocalCluster, report: Report, seed: int, groups: int) -> None:
        self._cluster = cluster
        self._report = report
        self._chance = random.Random(seed)
        self._groups = groups
        self._over = threading.Event()
        self._mishap: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="kills")
        self.done: Counter[str] = Counter()
        """How often a broker of each kind was killed."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """End, when every broker serves again.

        :raises LocalClusterError: one did not serve again.
        """
        self._over.set()
        self._thread.join()
        if self._mishap is not None:
            raise self._mishap

    def check(self) -> None:
        """Be sure that a broker of each kind was killed.

        :raises TooFewKillsError: it was not so.
        """
        if missed := [turn.__name__ for turn in TURNS if not self.done[turn.__name__]]:
            raise TooFewKillsError(f"nobody was killed as {', '.join(missed)}; {dict(self.done)}")

    def _run(self) -> None:
        try:
            self._named(lambda admin, _: len(admin.list_groups()) >= self._groups or None)
            for turn in TURNS * ROUNDS:
                self._kill(turn)
        except BaseException as error:
            self._mishap = error

    def _kill(self, turn: Chooser) -> None:
        number = self._named(turn)
        if number is None:
            return
        self._report(f"kill -9 of broker {number}, {turn.__name__.replace('_', ' ')}")
        self._cluster.broker(number).kill()
        self.done[turn.__name__] += 1
        try:
            self._over.wait(self._chance.uniform(*DOWN_S))
        finally:
            self._cluster.start_broker(number)
        self._over.wait(self._chance.uniform(*PAUSE_S))

    def _named(self, choose: Chooser) -> int | None:
        """Return a broker of a kind; None if there was none in time, or it is over."""
        deadline = time.monotonic() + NAMED_WITHIN_S
        while not self._over.is_set() and time.monotonic() < deadline:
            try:
                with Admin(self._cluster.bootstrap) as admin:
                    number = choose(admin, self._chance)
            except OncelogError:
                number = None  # the cluster is still busy with the kill before
            if number is not None:
                return number
            self._over.wait(POLL_S)
        return None


@contextmanager
def killed_in_turns(
    cluster: LocalCluster, report: Report, *, groups: int = 1, seed: int | None = None
) -> Iterator[Kills]:
    """Kill brokers while the block runs; afterwards all serve again."""
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    report(f"brokers are killed in turns, seed {seed}")
    kills = Kills(cluster, report, seed, groups)
    kills.start()
    try:
        yield kills
    finally:
        kills.end()
        report(f"kills: {dict(kills.done)}")
