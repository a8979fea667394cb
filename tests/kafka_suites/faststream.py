"""FastStream runs the program of ``docs/kafka.md``: orders of one topic become receipts in another.

It has two clients of Kafka: confluent-kafka, as the page shows it, and aiokafka. A service changes
from one to the other, and goes on where it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from kafka_suites import records
from kafka_suites.fetch import environment
from kafka_suites.guide import service
from kafka_suites.kit import Kit, Running
from kafka_suites.verdict import NotAsExpectedError, SuiteResult, in_turn

PINNED = Path(__file__).with_name("faststream-0.7.8.txt")
SUITE = "faststream.py"
ORDERS, RECEIPTS, GROUP = "counter", "receipts", "till"
COUNT = 100
"""So many orders more in each test."""
PRICE_CENTS = 250


class Till:
    """The program runs once or more often, and what it has made of all orders is looked at."""

    def __init__(self, kit: Kit) -> None:
        """:raises NotAvailableError: FastStream cannot be had here."""
        self._kit = kit
        self._programs = environment(PINNED, kit.report)
        self._started = 0
        self._orders = 0

    def running(self, client: str) -> AbstractContextManager[Running]:
        """Start it as the page does; afterwards it is told to stop.

        :param client: which of FastStream's modules it uses.
        """
        self._started += 1
        return service(
            self._kit,
            SUITE,
            f"{self._started:02d}-{client}",
            self._programs,
            changed=lambda text: text.replace("faststream.confluent", f"faststream.{client}"),
        )

    def joined(self, count: int) -> None:
        """Wait until so many of them share the work."""
        records.members(self._kit.oncelog, GROUP, count)

    def order(self) -> None:
        """Write some orders more."""
        orders: list[records.Keyed] = []
        for number in range(self._orders, self._orders + COUNT):
            order = {"item": f"cup {number}", "count": number % 7, "price_cents": PRICE_CENTS}
            # Keys spread them over the partitions.
            orders.append((b"%d" % number, json.dumps(order).encode()))
        records.write(self._kit.oncelog, ORDERS, orders)
        self._orders += COUNT

    def check(self) -> None:
        """Be sure that there is one receipt for each order, with what is to be paid.

        :raises NotAsExpectedError: it is otherwise.
        """
        wanted = Counter(
            (f"cup {number}", number % 7 * PRICE_CENTS) for number in range(self._orders)
        )
        read = records.read(
            self._kit.oncelog, RECEIPTS, lambda receipts: len(receipts) >= self._orders
        )
        receipts = [json.loads(record.value or b"") for record in read]
        found = Counter((receipt["item"], receipt["total_cents"]) for receipt in receipts)
        if found != wanted:
            raise NotAsExpectedError(f"missing: {wanted - found}, beyond it: {found - wanted}")


def orders_become_receipts(till: Till) -> None:
    """It takes those that were there before it began, and those that come while it runs."""
    till.order()
    with till.running("confluent"):
        till.joined(1)
        till.order()
        till.check()


def it_goes_on_where_it_stopped(till: Till) -> None:
    """Orders that came meanwhile are seen, and none of the old ones."""
    till.order()
    with till.running("confluent"):
        till.check()


def the_other_client_goes_on(till: Till) -> None:
    """aiokafka takes the group over from confluent-kafka."""
    till.order()
    with till.running("kafka"):
        till.order()
        till.check()


def two_share_the_work(till: Till) -> None:
    """Each has some of the partitions, and one that stops leaves its own to the other."""
    with till.running("confluent") as first:
        with till.running("confluent") as second:
            till.joined(2)
            till.order()
            till.check()
            idle = [each for each in (first, second) if "Processed" not in each.so_far.output]
            if idle:
                raise NotAsExpectedError(f"one had nothing to do: {idle[0].so_far.tail}")
        till.joined(1)
        till.order()
        till.check()


TESTS: tuple[Callable[[Till], None], ...] = (
    orders_become_receipts,
    it_goes_on_where_it_stopped,
    the_other_client_goes_on,
    two_share_the_work,
)


def run(kit: Kit) -> SuiteResult:
    """Run it.

    :raises NotAvailableError: it cannot be had here.
    """
    return in_turn(TESTS, Till(kit))
