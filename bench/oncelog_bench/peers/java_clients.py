"""Kafka's own programs that measure are run, each in a JVM of its own, and what they print is read.

They are ``kafka-producer-perf-test`` and ``kafka-consumer-perf-test`` of Kafka's release, with the
heap that its scripts give them. A rate is what the program tells of itself: from the first record
on, the compiling of its JVM included, but neither its start nor the joining of its group.
"""

from __future__ import annotations

import csv
import re
import subprocess
from itertools import dropwhile, islice
from pathlib import Path

_JVM = ("-Xmx512M", "-server", "-Djava.awt.headless=true")
_TOOLS = "org.apache.kafka.tools."
_TOTAL = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .*99\.9th", re.MULTILINE)
_DEADLINE_S = 300.0


class JavaClients:
    """They run with Kafka's jars, of a directory."""

    def __init__(self, jars: Path) -> None:
        self._class_path = str(jars / "*")

    def produce(
        self, bootstrap: str, topic: str, *, size: int, count: int, batch_bytes: int | None
    ) -> float:
        """Return the records/s of ``kafka-producer-perf-test`` at acks=all, idempotent.

        :param batch_bytes: its batch.size; None leaves it, as linger.ms, at Kafka's default.
        A record that was refused counts for it as sent: look at the topic afterwards.

        :raises RuntimeError: it failed, or did not end in time.
        """
        settings = [f"bootstrap.servers={bootstrap}", "acks=all", "enable.idempotence=true"]
        if batch_bytes is not None:
            settings += ["linger.ms=5", f"batch.size={batch_bytes}", f"buffer.memory={128 << 20}"]
        work = ["--topic", topic, "--num-records", str(count), "--record-size", str(size)]
        printed = self._run(
            "ProducerPerformance", *work, "--throughput", "-1", "--producer-props", *settings
        )
        return produced_rate(printed, count)

    def consume(self, bootstrap: str, topic: str, *, count: int) -> float:
        """Return the records/s of ``kafka-consumer-perf-test``, from the beginning.

        :raises RuntimeError: it failed, did not end in time, or has not read all.
        """
        work = ["--topic", topic, "--messages", str(count), "--fetch-size", str(4 << 20)]
        printed = self._run(
            "ConsumerPerformance", "--bootstrap-server", bootstrap, *work, "--timeout", "60000"
        )
        return consumed_rate(printed, count)

    def _run(self, program: str, *arguments: str) -> str:
        command = ["java", *_JVM, "-cp", self._class_path, _TOOLS + program, *arguments]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_DEADLINE_S
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{program} did not end in {_DEADLINE_S:g} s") from error
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed ({done.returncode}): {_tail(done.stderr)}")
        return done.stdout


def produced_rate(printed: str, count: int) -> float:
    """Return the records/s in the last line of ``kafka-producer-perf-test``.

    Lines before it are of parts of its run.

    :raises RuntimeError: there is no such line, or it is of another number of records than
        ``count``.
    """
    found = _TOTAL.search(printed)
    if found is None or int(found[1]) != count:
        raise RuntimeError(f"{count} records were to be sent: {_tail(printed)}")
    return float(found[2])


def consumed_rate(printed: str, count: int) -> float:
    """Return the records/s (fetch.nMsg.sec) that ``kafka-consumer-perf-test`` tells.

    Time in which its group came together does not count there.

    :raises RuntimeError: it tells none, or has read fewer than ``count`` records.
    """
    table = dropwhile(lambda line: not line.startswith("start.time"), printed.splitlines())
    for row in islice(csv.DictReader(table, skipinitialspace=True), 1):
        if int(row["data.consumed.in.nMsg"]) >= count:
            return float(row["fetch.nMsg.sec"])
    raise RuntimeError(f"{count} records were to be read: {_tail(printed)}")


def _tail(printed: str) -> str:
    return " ".join(printed.split())[-400:]
