"""Groups and compaction are measured in the order of ``docs/performance.md``.

As in ``suite``: medians of repeats inside one process; what is set against each other takes turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from oncelog_bench import baseline, compaction, coordinator_load, offsets, rebalance
from oncelog_bench.cluster import BenchCluster
from oncelog_bench.report import Report, quantile


@dataclass(frozen=True, slots=True)
class GroupScale:
    """Each figure does so much work."""

    repeats: int
    seconds: float
    """The seconds of one repeat of a rate or a latency."""
    groups: int
    members: int
    partitions: int
    records_per_s: int
    offset_groups: int
    """So many groups with 1,000 partitions each: the offsets that a coordinator loads."""
    compacted_bytes: int


FULL = GroupScale(3, 4.0, 32, 100, 1000, 500, 1000, 400_000_000)
QUICK = GroupScale(1, 1.0, 8, 10, 60, 200, 50, 60_000_000)

PRODUCE_RATE = 500
HEARTBEATS_MS = (3000, 300)
"""The default; and one with which waiting for heartbeats does not hide the rest."""


def run(report: Report, scale: GroupScale, wanted: Callable[[str], bool], home: Path) -> None:
    """Measure the groups "offsets", "rebalance", "load" and "compaction", if wanted."""
    works = {
        "offsets": _offsets, "rebalance": _rebalance, "load": _load, "compaction": _compaction,
    }  # fmt: skip
    for group, work in works.items():
        if wanted(group):
            work(report, scale, home)


def _offsets(report: Report, scale: GroupScale, home: Path) -> None:
    """Measure the commits and questions of 1 and of 100 partitions, beside the raw baseline."""
    topic = "bench-offsets"
    made = {"commit": offsets.commit_request, "fetch offsets": offsets.fetch_request}
    with BenchCluster(home / "offsets") as cluster:
        where = cluster.bootstrap
        uvloop.run(offsets.make_topic(where, topic, partitions=100))
        for partitions in (1, 100):
            batch = offsets.batch_of(partitions)
            raw: list[float] = []
            by_hand: list[float] = []
            taken: dict[str, list[offsets.Rates]] = {verb: [] for verb in made}
            for _ in range(scale.repeats):
                raw += baseline.measure(home, batch, total_bytes=len(batch) * 20_000, repeats=1)
                by_hand.append(offsets.synced_by_hand(home, batch, seconds=scale.seconds / 4))
                for verb, make in made.items():
                    asking = offsets.measure(
                        where, make(topic, partitions), groups=scale.groups, seconds=scale.seconds
                    )
                    taken[verb].append(uvloop.run(asking))
            beside = {
                "commit": f"the same bytes appended and synced 3 times, {partitions} offsets",
                "fetch offsets": f"the same bytes received, CRC, appended, {partitions} offsets",
            }
            values = {"commit": by_hand, "fetch offsets": [r * 1e6 / len(batch) for r in raw]}
            for verb, rates in taken.items():
                report.add(beside[verb], values[verb], "req/s")
                what = f"{verb}, {scale.groups} groups, {partitions} partitions each, RF 3"
                _offset_rows(report, what, partitions, rates, beside[verb])
        alone = [
            uvloop.run(offsets.consumer_commits(where, topic, seconds=scale.seconds))
            for _ in range(scale.repeats)
        ]
        report.add("consumer.commit(), one after the other, RF 3 synced", alone, "req/s")


def _offset_rows(
    report: Report, name: str, partitions: int, rates: list[offsets.Rates], against: str
) -> None:
    requests = [rate.requests for rate in rates]
    report.add(name, requests, "req/s", against=against)
    report.add(f"{name}, offsets", [rate * partitions for rate in requests], "offsets/s")
    report.add(f"{name}, p99", [quantile(rate.latencies_ms, 0.99) for rate in rates], "ms")


def _rebalance(report: Report, scale: GroupScale, home: Path) -> None:
    """Measure a large group (members x partitions) whose members come and go under load.

    The others hear of it by heartbeats. It is cooperative sticky.
    """
    found: dict[int, list[rebalance.Rebalance]] = {every_ms: [] for every_ms in HEARTBEATS_MS}
    with BenchCluster(home / "rebalance") as cluster:
        making = offsets.make_topic(cluster.bootstrap, "shared", partitions=scale.partitions)
        uvloop.run(making)
        for turn in range(scale.repeats):
            for every_ms, taken in found.items():
                measuring = rebalance.measure(
                    cluster.bootstrap,
                    "shared",
                    members=scale.members,
                    partitions=scale.partitions,
                    rate=scale.records_per_s,
                    name=f"group-{turn}-{every_ms}",
                    heartbeat_interval_ms=every_ms,
                )
                taken.append(uvloop.run(measuring))
    size = f"{scale.members} x {scale.partitions:,}"
    for every_ms, taken in found.items():
        _rebalance_rows(report, f"{size}, heartbeat {every_ms:,} ms", taken)


def _rebalance_rows(report: Report, what: str, found: list[rebalance.Rebalance]) -> None:
    report.add(f"{what}: all join at once", [f.all_joined_s for f in found], "s")
    report.add(f"{what}: one more joins", [f.one_joined_s for f in found], "s")
    report.add(f"{what}: one leaves", [f.one_left_s for f in found], "s")
    report.add(f"{what}: partitions that moved to it", [f.moved for f in found], "partitions")
    for label, mark in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0)):
        name = f"{what}: records late in quiet, {label}"
        report.add(name, [quantile(f.quiet, mark) for f in found], "ms")
        staying = [quantile(f.staying, mark) for f in found]
        report.add(f"{what}: of partitions that stay, {label}", staying, "ms", against=name)


def _load(report: Report, scale: GroupScale, home: Path) -> None:
    """Measure a coordinator's start with many offsets, beside reading the same bytes."""
    count = scale.offset_groups * coordinator_load.OFFSETS_A_GROUP
    topic = "committed"
    loads: list[float] = []
    raw: list[float] = []
    decoded: list[float] = []
    size = 0
    with BenchCluster(home / "load", brokers=1, configs=coordinator_load.CONFIGS) as cluster:
        where = cluster.bootstrap
        uvloop.run(offsets.make_topic(where, topic, partitions=coordinator_load.OFFSETS_A_GROUP))
        filling = coordinator_load.fill(
            where, topic, groups=scale.offset_groups, partitions=coordinator_load.OFFSETS_A_GROUP
        )
        uvloop.run(filling)
        last = f"load-{scale.offset_groups - 1}"
        for _ in range(scale.repeats):
            loads.append(asyncio.run(coordinator_load.restart(cluster, topic, last)))
            files = coordinator_load.offsets_files(cluster)
            size = sum(path.stat().st_size for path in files)
            raw.append(baseline.read_raw(files)[0])
            decoded.append(coordinator_load.decode_raw(files))
    bytes_read = f"reading the same {size / 1e6:.0f} MB, CRC"
    theirs = report.add(bytes_read, raw, "s")
    report.add(f"{bytes_read}, keys and values", decoded, "s")
    name = f"coordinator loads {count:,} offsets"
    report.add(name, loads, "s", against=f"{bytes_read}, keys and values")
    report.add(
        f"{name}, MB/s",
        [size / 1e6 / load for load in loads if load],
        "MB/s",
        against=bytes_read,
        their_value=size / 1e6 / theirs,
    )


def _compaction(report: Report, scale: GroupScale, home: Path) -> None:
    """Measure the cleaner's rate when it may do what it can, then its effect when held back."""
    rates: list[float] = []
    raw: list[float] = []
    left: list[float] = []
    with BenchCluster(home / "compaction", brokers=1, configs=compaction.UNBOUND) as cluster:
        for turn in range(scale.repeats):
            directory = _prepare(cluster, f"dirty-{turn}", scale)
            seconds, size_bytes = baseline.read_raw(sorted(directory.glob("*.log")))
            raw.append(size_bytes / seconds / 1e6)
            done = uvloop.run(compaction.compact(cluster.bootstrap, f"dirty-{turn}", directory))
            rates.append(done.bytes_before / done.seconds / 1e6)
            left.append(done.bytes_after / done.bytes_before * 100)
    name = "reading the same bytes, CRC"
    report.add(name, raw, "MB/s")
    report.add("compaction, 1 KB values, unbound", rates, "MB/s", against=name)
    report.add("size after compaction", left, "%")
    _compaction_beside(report, scale, home)


def _prepare(cluster: BenchCluster, topic: str, scale: GroupScale) -> Path:
    filling = compaction.fill(
        cluster.bootstrap, topic, bytes_total=scale.compacted_bytes, keys=20_000
    )
    uvloop.run(filling)
    return cluster.directory / "broker-1" / "data" / f"{topic}-0"


def _compaction_beside(report: Report, scale: GroupScale, home: Path) -> None:
    quiet: list[float] = []
    beside: list[float] = []
    rates: list[float] = []

    async def both(where: str, topic: str, directory: Path) -> None:
        resting = asyncio.sleep(scale.seconds)
        before, _ = await compaction.produce_until(where, "live", rate=PRODUCE_RATE, until=resting)
        cleaning = compaction.compact(where, topic, directory)
        sends, work = await compaction.produce_until(
            where, "live", rate=PRODUCE_RATE, until=cleaning
        )
        quiet.append(quantile([ms for _, ms in before], 0.99))
        during = [ms for at, ms in sends if work.began_s <= at <= work.ended_s]
        beside.append(quantile(during, 0.99))
        rates.append(work.bytes_before / work.seconds / 1e6)

    with BenchCluster(home / "beside", brokers=1, configs=compaction.BESIDE) as cluster:
        uvloop.run(offsets.make_topic(cluster.bootstrap, "live", partitions=1))
        for turn in range(scale.repeats):
            directory = _prepare(cluster, f"dirty-{turn}", scale)
            uvloop.run(both(cluster.bootstrap, f"dirty-{turn}", directory))
    report.add("compaction by default settings, beside a producer", rates, "MB/s")
    name = f"produce p99 at {PRODUCE_RATE} rec/s, no compaction"
    report.add(name, quiet, "ms")
    report.add("the same beside compaction", beside, "ms", against=name)
