"""The same programs run against Apache Kafka and against our listener for clients of Kafka.

Both clusters have three brokers on the same cores, and are up all the time. A program does its work
on one and then on the other; in the next round the other comes first. Between two turns everything
is written to the disk, so that nobody's turn pays for what the other left in the page cache. Topics
have six partitions of RF 3 with min.insync.replicas=2; producers are idempotent at acks=all. Ours
sync before they acknowledge (``flush=commit``), Kafka does not.

A turn's CPU is that of all processes of its cluster while the program runs: ours with ZooKeeper, as
Kafka's brokers are controllers too. The time of the program itself is not in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oncelog_bench.cluster import BenchCluster
from oncelog_bench.cpu import cpu_seconds
from oncelog_bench.peers import kafka_clients as clients
from oncelog_bench.peers.java_clients import JavaClients
from oncelog_bench.peers.kafka_cluster import KafkaCluster
from oncelog_bench.report import Report
from oncelog_bench.suite import SIZES, Scale

OURS = "Oncelog"
THEIRS = "Kafka"
SYNCED = {OURS: "synced", THEIRS: "unsynced"}
BATCH_BYTES = 512 * 1024
"""It is the batch.size of confluent-kafka and of Java; aiokafka has 256 KiB. The linger is 5 ms."""
CONSUMED_SHARE = 2.0
"""Every program reads so many times the records of the benchmark's scale."""
PRODUCE, CONSUME = "produce", "consume"


@dataclass(frozen=True, slots=True)
class Side:
    """A side is one of the two clusters."""

    name: str
    bootstrap: str
    """Clients of Kafka find its brokers there."""
    pids: Sequence[int]
    """Its processes."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A program has done its work once."""

    records: int
    rate: float
    """The records a second that the program told."""
    cpu_s: float
    """The CPU seconds of all processes of the cluster meanwhile."""

    @property
    def cpu_per_million(self) -> float:
        """Return the CPU seconds a million records."""
        return self.cpu_s / self.records * 1e6

    def mebibytes(self, size: int) -> float:
        """Return the MiB a second of values that have ``size`` bytes each."""
        return self.rate * size / (1 << 20)


@dataclass(frozen=True, slots=True)
class Program:
    """A program is of one client; both functions return records a second."""

    name: str
    share: float
    """It writes so many times the records of the benchmark's scale, as it is fast or slow."""
    produce: Callable[[str, str, int, int], float]
    """It is called with bootstrap servers, topic, bytes of a value, and number of records."""
    consume: Callable[[str, str, int], float] | None
    """It is called with bootstrap servers, topic and number of records; None: it only produces."""
    sizes: tuple[int, ...] = tuple(SIZES)


def programs(java: JavaClients) -> list[Program]:
    """Return the programs: confluent-kafka, aiokafka, and Kafka's own ones in Java.

    The last one shows small batches: its settings are Kafka's defaults (16 KiB).
    """
    return [
        Program(
            "confluent-kafka",
            2.0,
            lambda at, topic, size, count: clients.confluent_produce(
                at, topic, size=size, count=count, acks="all", batch_bytes=BATCH_BYTES
            ),
            lambda at, topic, count: clients.confluent_consume(at, topic, count=count),
        ),
        Program(
            "aiokafka",
            0.25,
            lambda at, topic, size, count: clients.aiokafka_produce(
                at, topic, size=size, count=count, acks="all"
            ),
            lambda at, topic, count: clients.aiokafka_consume(at, topic, count=count),
        ),
        Program(
            "Java",
            2.0,
            lambda at, topic, size, count: java.produce(
                at, topic, size=size, count=count, batch_bytes=BATCH_BYTES
            ),
            lambda at, topic, count: java.consume(at, topic, count=count),
        ),
        Program(
            "Java (defaults)",
            1.0,
            lambda at, topic, size, count: java.produce(
                at, topic, size=size, count=count, batch_bytes=None
            ),
            None,
            sizes=(100,),
        ),
    ]


def run(report: Report, scale: Scale, kafka: KafkaCluster, jars: Path, home: Path) -> None:
    """Measure every program on ``kafka`` and on a cluster of ours, which is started beside it.

    :raises RuntimeError: a program failed, or its topic has fewer records than it told.
    """
    with BenchCluster(home / "listener", configs={"flush": "commit"}, kafka=True) as ours:
        sides = (
            Side(OURS, ours.kafka_bootstrap, ours.all_pids()),
            Side(THEIRS, kafka.bootstrap, kafka.pids),
        )
        works = programs(JavaClients(jars))
        for size in scale.program_sizes:
            _measure_producing(report, scale, sides, works, size)
            _measure_consuming(report, scale, sides, works, size)


def _measure_producing(
    report: Report, scale: Scale, sides: Sequence[Side], works: Sequence[Program], size: int
) -> None:
    for program in works:
        if size in program.sizes:
            count = _records(scale, size, program.share)
            turns = in_turns(sides, scale.repeats, partial(_produce, program, size, count))
            tell(report, program.name, PRODUCE, size, turns)


def _measure_consuming(
    report: Report, scale: Scale, sides: Sequence[Side], works: Sequence[Program], size: int
) -> None:
    """Measure all on the same records, which confluent-kafka has written."""
    count = _records(scale, size, CONSUMED_SHARE)
    with _filled(sides, size, count) as topic:
        for program in works:
            if program.consume is not None:
                work = partial(_consume, program.consume, topic, count)
                tell(report, program.name, CONSUME, size, in_turns(sides, scale.repeats, work))


def _records(scale: Scale, size: int, share: float) -> int:
    return int(share * scale.bytes_total) // max(size, 300)


def in_turns(
    sides: Sequence[Side], rounds: int, work: Callable[[Side], Turn]
) -> dict[str, list[Turn]]:
    """Do ``work`` on each side in each round; who came last in a round comes first in the next.

    Return the turns of each side, by its name.
    """
    taken: dict[str, list[Turn]] = {side.name: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            taken[side.name].append(work(side))
    return taken


def row_name(side: str, program: str, verb: str, size: int) -> str:
    """Return the name of the row of records a second, which says what was configured."""
    return f"{side}: {program} {verb} {SIZES[size]} RF 3 acks=all {SYNCED[side]}"


def tell(report: Report, program: str, verb: str, size: int, turns: dict[str, list[Turn]]) -> None:
    """Add the rows of one piece of work: rate, MiB a second and CPU; ours beside Kafka's."""
    ours, theirs = (row_name(side, program, verb, size) for side in (OURS, THEIRS))
    for name, taken, peer in ((theirs, turns[THEIRS], None), (ours, turns[OURS], theirs)):
        rates, volumes, spent = (
            [turn.rate for turn in taken],
            [turn.mebibytes(size) for turn in taken],
            [turn.cpu_per_million for turn in taken],
        )
        report.add(name, rates, "rec/s", against=peer)
        report.add(f"{name}, MiB", volumes, "MiB/s", against=peer and f"{peer}, MiB")
        report.add(f"{name}, CPU", spent, "s/M records", against=peer and f"{peer}, CPU")


def _produce(program: Program, size: int, count: int, side: Side) -> Turn:
    with _topic(side, "programs-produce") as topic:
        turn = _turn(side, count, partial(program.produce, side.bootstrap, topic, size, count))
        _be_sure(side, topic, count)
    return turn


def _consume(consume: Callable[[str, str, int], float], topic: str, count: int, side: Side) -> Turn:
    return _turn(side, count, partial(consume, side.bootstrap, topic, count))


def _turn(side: Side, count: int, work: Callable[[], float]) -> Turn:
    os.sync()
    before = cpu_seconds(side.pids)
    rate = work()
    return Turn(count, rate, cpu_seconds(side.pids) - before)


@contextmanager
def _filled(sides: Sequence[Side], size: int, count: int) -> Iterator[str]:
    """Have a topic of so many records on both sides, all written by confluent-kafka."""
    name = "programs-consume"
    with _topic(sides[0], name), _topic(sides[1], name):
        for side in sides:
            clients.confluent_produce(side.bootstrap, name, size=size, count=count, acks="all")
            _be_sure(side, name, count)
        yield name


@contextmanager
def _topic(side: Side, name: str) -> Iterator[str]:
    clients.make_topic(side.bootstrap, name, 3)
    try:
        yield name
    finally:
        clients.delete_topic(side.bootstrap, name)


def _be_sure(side: Side, topic: str, count: int) -> None:
    """A rate counts only if the records are there: clients count refused ones as sent."""
    found = clients.records_in(side.bootstrap, topic)
    if found < count:
        raise RuntimeError(f"{side.name} has {found} of the {count} records of {topic}")
