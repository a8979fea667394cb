"""Spark's own connector of Kafka runs the program of ``docs/kafka.md``: a batch and a stream."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kafka_suites import records
from kafka_suites.fetch import environment, jars
from kafka_suites.guide import SERVERS, program, shown
from kafka_suites.kafka_tools import has
from kafka_suites.kit import Kit
from kafka_suites.verdict import NotAsExpectedError, SuiteResult, in_turn

PINNED = Path(__file__).with_name("spark-4.2.0.txt")
CONNECTOR = Path(__file__).with_name("spark-kafka-4.2.0-jars.txt")
PACKAGES = "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
SUITE = "spark_connector.py"
VISITS, SHOUTED = "visits", "shouted"
COUNT = 5_000
"""So many visits more in each test."""
DEADLINE_S = 300.0


class Visits:
    """The program is run once or more often, and what it has copied is looked at."""

    def __init__(self, kit: Kit) -> None:
        """:raises NotAvailableError: Spark or its connector cannot be had here."""
        self._kit = kit
        self._class_path = jars(CONNECTOR, "Spark's connector of Kafka", kit.report)
        self._programs = environment(PINNED, kit.report)
        self._runs = 0
        self._visits = 0

    def write(self) -> None:
        """Write some visits more."""
        numbers = range(self._visits, self._visits + COUNT)
        rows = [(b"guest %d" % (number % 97), b"table %d" % number) for number in numbers]
        records.write(self._kit.oncelog, VISITS, rows)
        self._visits += COUNT

    def run(self) -> None:
        """Run the program as the page does, with the connector that was fetched.

        :raises NotAsExpectedError: it fails, or counts other than what was written.
        """
        self._runs += 1
        file, text = program(SUITE)
        text = text.replace(SERVERS, self._kit.bootstrap)
        (self._kit.folder / file).write_text(text, encoding="utf-8")
        (each,) = shown(SUITE)
        if PACKAGES not in each.command:
            raise NotAsExpectedError(f"the guide's command has no {PACKAGES}")
        mine = f"--master local[2] --jars {self._class_path.replace(os.pathsep, ',')}"
        command = each.command.replace(PACKAGES, mine)
        paths = {"PATH": f"{self._programs}:{os.environ['PATH']}"}
        words = ["bash", "-c", command]
        ended = self._kit.run(f"{self._runs:02d}", words, DEADLINE_S, environment=paths)
        if ended.code != 0:
            raise NotAsExpectedError(ended.tail)
        has(ended.output, f"visits: {self._visits}\n")

    def check(self) -> None:
        """Be sure that each visit was copied once, with its key, in capitals.

        :raises NotAsExpectedError: it is otherwise.
        """
        wanted = Counter(
            (b"guest %d" % (number % 97), b"TABLE %d" % number) for number in range(self._visits)
        )
        read = records.read(self._kit.oncelog, SHOUTED, lambda rows: len(rows) >= self._visits)
        found = Counter((row.key or b"", row.value or b"") for row in read)
        if found != wanted:
            lost, more = (wanted - found).total(), (found - wanted).total()
            raise NotAsExpectedError(f"{lost} are missing, and {more} are beyond it")


def a_topic_is_counted_and_copied(visits: Visits) -> None:
    """A batch counts what is there, and a stream copies it."""
    visits.write()
    visits.run()
    visits.check()


def a_stream_goes_on_from_its_checkpoint(visits: Visits) -> None:
    """The next run copies what has come since, and nothing again."""
    visits.write()
    visits.run()
    visits.check()


TESTS: tuple[Callable[[Visits], None], ...] = (
    a_topic_is_counted_and_copied,
    a_stream_goes_on_from_its_checkpoint,
)


def run(kit: Kit) -> SuiteResult:
    """Run it.

    :raises NotAvailableError: it cannot be had here.
    """
    return in_turn(TESTS, Visits(kit))
