"""Faust runs the program of ``docs/kafka.md``: it sums up reviews in a table.

The table lives in memory, and in a compacted topic from which a worker recovers it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import accumulate
from pathlib import Path

from kafka_suites import records
from kafka_suites.fetch import environment
from kafka_suites.guide import service
from kafka_suites.kit import Kit, Running
from kafka_suites.verdict import NotAsExpectedError, SuiteResult, in_turn
from oncelog import Record

PINNED = Path(__file__).with_name("faust-0.15.3.txt")
SUITE = "faust.py"
REVIEWS, TOTALS, GROUP = "reviews", "totals", "stars"
TABLE = "stars-stars-changelog"
COUNT = 200
"""So many reviews more in each test."""
DISHES = 23
STARS = 5
Sums = dict[bytes, list[int]]
"""It holds what was told of each dish, in order."""


class Kitchen:
    """The program runs once or more often, and what it tells of all reviews is looked at."""

    def __init__(self, kit: Kit) -> None:
        """:raises NotAvailableError: Faust cannot be had here."""
        self._kit = kit
        self._programs = environment(PINNED, kit.report)
        self._started = 0
        self._reviews: list[tuple[bytes, int]] = []

    def running(self) -> AbstractContextManager[Running]:
        """Start a worker as the page does; in the end it is told to stop."""
        self._started += 1
        return service(self._kit, SUITE, f"{self._started:02d}-worker", self._programs)

    def shared(self, count: int) -> None:
        """Wait until so many workers share the partitions.

        :raises NotAsExpectedError: they do not, or one of them has nothing to do.
        """
        for member in records.members(self._kit.oncelog, GROUP, count):
            # Faust gives its bytes a version that Kafka has not: they are read by nobody else.
            if b"\x00\x07" + REVIEWS.encode() not in member.assignment:
                raise NotAsExpectedError(f"nothing is for {member}")

    def review(self) -> None:
        """Write some reviews more."""
        first = len(self._reviews)
        more = [
            (b"dish %d" % (number % DISHES), number % STARS)
            for number in range(first, first + COUNT)
        ]
        rows = [(dish, b"%d" % stars) for dish, stars in more]
        records.write(self._kit.oncelog, REVIEWS, rows)
        self._reviews += more

    def check(self) -> None:
        """Be sure that each review was added once, and in its turn, and its sum told.

        :raises NotAsExpectedError: it is otherwise.
        """
        wanted: Sums = defaultdict(list)
        for dish, stars in self._reviews:
            wanted[dish].append(stars)
        wanted = {dish: list(accumulate(given)) for dish, given in wanted.items()}
        read = records.read(
            self._kit.oncelog, TOTALS, lambda totals: len(totals) >= len(self._reviews)
        )
        found: Sums = defaultdict(list)
        for record in read:
            found[record.key or b""].append(int(record.value or b"0"))
        for dish in wanted.keys() | found.keys():
            if wanted.get(dish) != found.get(dish):
                raise NotAsExpectedError(f"{dish!r}: {found.get(dish)}, not {wanted.get(dish)}")

    def check_table(self) -> None:
        """Be sure that the table's topic is compacted, and holds the sums.

        :raises NotAsExpectedError: it is otherwise.
        """
        policy = records.setting(self._kit.oncelog, TABLE, "cleanup_policy")
        if policy != "compact":
            raise NotAsExpectedError(f"{TABLE} has cleanup_policy={policy}")
        sums: dict[bytes, int] = defaultdict(int)
        for dish, stars in self._reviews:
            sums[dish] += stars
        wanted = {b'"%s"' % dish: b"%d" % total for dish, total in sums.items()}
        read = records.read(self._kit.oncelog, TABLE, lambda rows: last(rows) == wanted)
        if last(read) != wanted:
            raise NotAsExpectedError(f"{TABLE} holds {last(read)}, and not {wanted}")


def last(rows: list[Record]) -> dict[bytes, bytes]:
    """Return the last value of each key."""
    return {row.key or b"": row.value or b"" for row in rows}


def reviews_are_summed_up(kitchen: Kitchen) -> None:
    """It takes those that were there before it began, and those that come while it runs."""
    kitchen.review()
    with kitchen.running():
        kitchen.shared(1)
        kitchen.review()
        kitchen.check()


def the_table_is_compacted(kitchen: Kitchen) -> None:
    """The table's topic was made as Faust asks, and holds what the table does."""
    kitchen.check_table()


def a_worker_recovers_the_table(kitchen: Kitchen) -> None:
    """Sums go on where they were, in a process that has read them from the topic alone."""
    kitchen.review()
    with kitchen.running():
        kitchen.check()


def two_share_the_table(kitchen: Kitchen) -> None:
    """Partitions of the table go from one worker to the other, and back."""
    with kitchen.running():
        kitchen.shared(1)
        with kitchen.running():
            kitchen.shared(2)
            kitchen.review()
            kitchen.check()
        kitchen.shared(1)
        kitchen.review()
        kitchen.check()


TESTS: tuple[Callable[[Kitchen], None], ...] = (
    reviews_are_summed_up,
    the_table_is_compacted,
    a_worker_recovers_the_table,
    two_share_the_table,
)


def run(kit: Kit) -> SuiteResult:
    """Run it.

    :raises NotAvailableError: it cannot be had here.
    """
    return in_turn(TESTS, Kitchen(kit))
