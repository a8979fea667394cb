"""Oncelog's own figures are measured in the order of the table in ``docs/performance.md``.

Every figure is the median of ``repeats`` runs inside one process; rows that are compared with each
other (baseline, flush modes) take turns, so that a noisy minute hits both.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop

from oncelog import NewTopic
from oncelog_bench import (
    baseline,
    command,
    console,
    failover,
    group_suite,
    idle,
    latency,
    moves_suite,
    security_suite,
    throughput,
    transaction_suite,
)
from oncelog_bench.cluster import BenchCluster
from oncelog_bench.report import Report, quantile
from oncelog_bench.throughput import Work

CONSUMERS = {
    "by record": throughput.consume_each,
    "by column batch": throughput.consume_columns,
    "by Arrow": throughput.consume_arrow,
}
SIZES = {100: "100 B", 1000: "1 KB"}
PROGRAMS = "kafka"
"""It is a group of ``peers`` alone: the same programs run against Kafka and our Kafka listener."""
SETTLE_S = 10.0
"""Brokers that have made partitions a moment ago are not idle yet: they report them, and are looked
at more often."""
BASELINE = "raw baseline: receive, CRC, append; 1 KB records"


@dataclass(frozen=True, slots=True)
class Scale:
    """Each figure does so much work: ``full`` for the record, ``quick`` to see that it runs."""

    repeats: int
    bytes_total: int
    latency_seconds: float
    failovers: int
    idle_seconds: float
    partitions: tuple[int, ...]
    groups: group_suite.GroupScale
    transactions: transaction_suite.TransactionScale
    security: security_suite.SecurityScale
    console: console.ConsoleScale
    moves: moves_suite.MovesScale
    program_sizes: tuple[int, ...]
    """The bytes of records that programs of Kafka's clients move."""


FULL = Scale(
    3,
    300_000_000,
    10.0,
    20,
    20.0,
    (300, 2000),
    group_suite.FULL,
    transaction_suite.FULL,
    security_suite.FULL,
    console.FULL,
    moves_suite.FULL,
    tuple(SIZES),
)
QUICK = Scale(
    1,
    30_000_000,
    3.0,
    2,
    5.0,
    (60,),
    group_suite.QUICK,
    transaction_suite.QUICK,
    security_suite.QUICK,
    console.QUICK,
    moves_suite.QUICK,
    (100,),
)
COMMAND_REPEATS = 11
"""They are short, and what else runs on the machine shows."""


def run(
    report: Report, scale: Scale, only: frozenset[str], *, history: failover.Sink | None = None
) -> None:
    """Measure every group of ``only`` (all where it is empty) into ``report``.

    :param history: takes what the clients of the failover group recorded.
    """

    def wanted(group: str) -> bool:
        return not only or group in only

    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as scratch:
        home = Path(scratch)
        if wanted("produce") or wanted("consume") or wanted("latency"):
            with BenchCluster(home / "cluster") as cluster:
                _warm_up(scale, cluster)
                if wanted("produce"):
                    _produce_single(report, scale, cluster, home)
                    _produce_replicated(report, scale, cluster)
                    _flush_modes(report, scale, cluster)
                if wanted("consume"):
                    _consume(report, scale, cluster)
                if wanted("latency"):
                    _latency(report, scale, cluster)
        if wanted("failover"):
            _failover(report, scale, home, history)
        if wanted("idle"):
            for count in scale.partitions:
                _idle(report, scale, home, count)
        if wanted("command"):
            command.run(report, COMMAND_REPEATS)
        if wanted("testing"):
            # Brokers in this process: they are loaded for those who want them only. Each full
            # garbage collection looks at all that a process has, and the rows of consumers tell.
            from oncelog_bench import testing

            testing.run(report, scale.repeats)
        group_suite.run(report, scale.groups, wanted, home)
        transaction_suite.run(report, scale.transactions, wanted, home)
        if wanted("security"):
            security_suite.run(report, scale.security, home)
        if wanted("console"):
            console.run(report, scale.console)
        if wanted("moves"):
            moves_suite.run(report, scale.moves, home)


def _records(scale: Scale, size: int, *, each: bool) -> int:
    """Return the records of one repeat; one-by-one sends do a fifth of the bulk work."""
    count = scale.bytes_total // max(size, 300) // (5 if each else 1)
    return max(50_000, count // 50_000 * 50_000)


def _on_topic(cluster: BenchCluster, replication_factor: int, flush: str, work: Work) -> float:
    return throughput.on_topic(
        cluster.bootstrap, work, replication_factor=replication_factor, flush=flush
    )


def _many(scale: Scale, size: int, acks: throughput.Acks) -> Work:
    count = _records(scale, size, each=False)
    return partial(throughput.produce_many, size=size, count=count, acks=acks)


def _each(scale: Scale, size: int, acks: throughput.Acks) -> Work:
    count = _records(scale, size, each=True)
    return partial(throughput.produce_each, size=size, count=count, acks=acks)


def _warm_up(scale: Scale, cluster: BenchCluster) -> None:
    """Make one run that does not count: code is loaded, and memory has been touched once."""
    for _ in range(2):
        _on_topic(cluster, 3, "commit", _many(scale, 1000, "all"))


def _produce_single(report: Report, scale: Scale, cluster: BenchCluster, home: Path) -> None:
    from oncelog_protocol.records.builder import encode_batch

    batch = encode_batch([b"x" * 1000] * (throughput.BATCH_BYTES // 1010), timestamps=0)
    raw: list[float] = []
    ours: list[float] = []
    for _ in range(scale.repeats):
        raw += baseline.measure(home, batch, total_bytes=scale.bytes_total, repeats=1)
        ours.append(_on_topic(cluster, 1, "commit", _many(scale, 1000, 1)))
    report.add(BASELINE, raw, "MB/s")
    name = "produce 1 KB RF 1 acks=1 send_many"
    report.add(f"{name}, MB/s", [rate * 1000 / 1e6 for rate in ours], "MB/s", against=BASELINE)
    report.add(name, ours, "rec/s")
    each = [_on_topic(cluster, 1, "commit", _each(scale, 1000, 1)) for _ in range(scale.repeats)]
    report.add("produce 1 KB RF 1 acks=1 send", each, "rec/s")
    for label, make in (("send_many", _many), ("send", _each)):
        rates = [_on_topic(cluster, 1, "commit", make(scale, 100, 1)) for _ in range(scale.repeats)]
        report.add(f"produce 100 B RF 1 acks=1 {label}", rates, "rec/s")


def _produce_replicated(report: Report, scale: Scale, cluster: BenchCluster) -> None:
    for size, label in SIZES.items():
        for verb, make in (("send_many", _many), ("send", _each)):
            rates = [
                _on_topic(cluster, 3, "commit", make(scale, size, "all"))
                for _ in range(scale.repeats)
            ]
            report.add(f"produce {label} RF 3 acks=all {verb}", rates, "rec/s")


def _flush_modes(report: Report, scale: Scale, cluster: BenchCluster) -> None:
    rates: dict[str, list[float]] = {"commit": [], "interval": []}
    for _ in range(scale.repeats):
        for flush, taken in rates.items():
            taken.append(_on_topic(cluster, 3, flush, _many(scale, 1000, "all")))
    name = "produce 1 KB RF 3 acks=all, flush="
    report.add(f"{name}interval", rates["interval"], "rec/s")
    report.add(f"{name}commit", rates["commit"], "rec/s", against=f"{name}interval")


def _consume(report: Report, scale: Scale, cluster: BenchCluster) -> None:
    for size, label in SIZES.items():
        count = _records(scale, size, each=False)
        taken: dict[str, list[float]] = {how: [] for how in CONSUMERS}
        _on_topic(cluster, 3, "commit", partial(_consume_all, size, count, scale.repeats, taken))
        for how, rates in taken.items():
            report.add(f"consume {label} {how}", rates, "rec/s")


async def _consume_all(
    size: int, count: int, repeats: int, taken: dict[str, list[float]], bootstrap: str, topic: str
) -> float:
    """Fill the topic once, then read it in every way in turn."""
    await throughput.produce_many(
        bootstrap, topic, size=size, count=count, acks="all", batch_size=128 * 1024
    )
    for _ in range(repeats):
        for how, consume in CONSUMERS.items():
            taken[how].append(await consume(bootstrap, topic, count=count))
    return 0.0


def _latency(report: Report, scale: Scale, cluster: BenchCluster) -> None:
    marks: dict[str, list[float]] = {"p50": [], "p99": [], "p99.9": []}

    async def work(bootstrap: str, topic: str) -> float:
        values = await latency.end_to_end_ms(
            bootstrap, topic, rate=1000, seconds=scale.latency_seconds
        )
        for mark, taken in marks.items():
            taken.append(quantile(values, float(mark[1:]) / 100))
        return 0.0

    for _ in range(scale.repeats):
        _on_topic(cluster, 3, "commit", work)
    for mark, taken in marks.items():
        report.add(f"end to end at 1,000 rec/s RF 3 acks=all synced, {mark}", taken, "ms")


def _failover(report: Report, scale: Scale, home: Path, history: failover.Sink | None) -> None:
    gaps: list[float] = []
    with BenchCluster(home / "failover") as cluster:
        topic = NewTopic("failover", 1, 3, {"min_insync_replicas": "2"})
        uvloop.run(failover.make_topic(cluster.bootstrap, topic))
        for turn in range(scale.failovers):
            killing = failover.kill_leader(
                cluster, "failover", want_controller=turn % 2 == 1, turn=turn, history=history
            )
            gaps.append(asyncio.run(killing))
        if history is not None:
            asyncio.run(failover.read_back(cluster, "failover", history))
    report.add("leader killed to next acknowledgement, median", gaps, "s")
    report.add(f"leader killed to next acknowledgement, worst of {len(gaps)}", [max(gaps)], "s")
    report.add("the same where the leader is the controller, median", gaps[1::2], "s")


def _idle(report: Report, scale: Scale, home: Path, partitions: int) -> None:
    with BenchCluster(home / f"idle-{partitions}") as cluster:
        uvloop.run(failover.make_topic(cluster.bootstrap, NewTopic("idle", partitions, 3)))
        pids = sorted(cluster.pids().values())
        idle.idle(pids, seconds=SETTLE_S)
        cpu, memory = idle.idle(pids, seconds=scale.idle_seconds)
        report.add(f"idle CPU per broker, {partitions:,} partitions of RF 3", cpu, "% of a core")
        report.add(f"memory per broker, {partitions:,} partitions of RF 3", memory, "MB")
