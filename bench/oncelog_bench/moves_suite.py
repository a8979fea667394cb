"""Moves are measured in the order of ``docs/performance.md``: small ones, copies, beside clients.

As in ``suite``: medians of repeats inside one process; what is set against each other takes turns.
Partitions that are copied have one replica, so that a move copies once.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import uvloop

from oncelog_bench import coordinator_load, coordinator_move, latency, moves, throughput
from oncelog_bench.cluster import BenchCluster
from oncelog_bench.report import Report, quantile

UNHELD = {"replica_catch_up_min_bytes_per_second": str(4 << 30)}
"""A copy never waits: what is measured is how fast it can be."""
FIXED = 16 << 20
LARGE = 128 << 10
BATCHES = {LARGE: "128 KiB", 1 << 10: "1 KiB"}
EMPTY_ROW = "an empty partition moves, asked to swept, median"
COPY_ROW = "copy by fetch, 1 KB records, batches of 128 KiB"
CPU_ROW = f"{COPY_ROW}, CPU of both ends"
"""These have a peer."""
RATE = 1000
ALONE, BESIDE = "nothing moves", "beside a move at the found pace"


@dataclass(frozen=True, slots=True)
class MovesScale:
    """Each figure does so much work."""

    repeats: int
    empty: int
    """So often an empty partition moves."""
    many: int
    """So many small partitions move at once."""
    copy_bytes: int
    seconds: float
    """One repeat beside a move takes so long."""
    pace_seconds: float
    offset_groups: int
    """So many groups, each with all its offsets, has the coordinator that moves."""
    quiet_seconds: float
    """Nothing happens for so long before a copy that is to be alone: brokers take small pieces
    where somebody has used a disk in the last half minute."""


FULL = MovesScale(3, 20, 1000, 1_000_000_000, 10.0, 10.0, 1000, 31.0)
QUICK = MovesScale(1, 3, 20, 50_000_000, 2.0, 2.0, 5, 0.0)


def run(report: Report, scale: MovesScale, home: Path) -> None:
    """Measure the group "moves"."""
    with BenchCluster(home / "moves", brokers=2, configs=UNHELD) as cluster:
        _small(report, scale, cluster)
        _copies(report, scale, cluster)
    fixed = {"replica_catch_up_max_bytes_per_second": str(FIXED)}
    with BenchCluster(home / "moves-held", brokers=2, configs=fixed) as cluster:
        _fixed_pace(report, scale, cluster)
    with BenchCluster(home / "moves-beside") as cluster:
        _beside(report, scale, cluster)
    _coordinator(report, scale, home)
    _plan(report, scale)


def _small(report: Report, scale: MovesScale, cluster: BenchCluster) -> None:
    async def empty() -> list[float]:
        await moves.make_topic(cluster.bootstrap, "empty", 1, [1])
        await moves.empty_moves_ms(cluster.bootstrap, "empty", count=2)  # not counted
        return await moves.empty_moves_ms(cluster.bootstrap, "empty", count=scale.empty)

    async def many() -> list[float]:
        await moves.make_topic(cluster.bootstrap, "many", scale.many, [1])
        return [
            await moves.many_moves_s(
                cluster.bootstrap, "many", partitions=scale.many, to=2 - number % 2
            )
            for number in range(scale.repeats)
        ]

    taken = uvloop.run(empty())
    report.add(EMPTY_ROW, taken, "ms")
    report.add(f"the same, worst of {len(taken)}", [max(taken)], "ms")
    report.add(f"{scale.many:,} empty partitions move", uvloop.run(many()), "s")


def _copies(report: Report, scale: MovesScale, cluster: BenchCluster) -> None:
    """Copy the same bytes in large batches and in small ones, in turns."""
    taken: dict[int, list[tuple[float, float]]] = {size: [] for size in BATCHES}

    async def every() -> None:
        for size in BATCHES:
            topic = f"copied-{size}"
            await moves.make_topic(cluster.bootstrap, topic, 1, [1])
            await moves.fill(cluster.bootstrap, topic, scale.copy_bytes, batch_bytes=size)
        await asyncio.sleep(scale.quiet_seconds)
        for turn in range(scale.repeats + 1):
            for size, found in taken.items():
                figures = await moves.copied(cluster, f"copied-{size}", scale.copy_bytes)
                if turn:  # the first one touches pages
                    found.append(figures)

    uvloop.run(every())
    for size, label in BATCHES.items():
        name = f"copy by fetch, 1 KB records, batches of {label}"
        report.add(name, [rate for rate, _ in taken[size]], "MB/s")
        report.add(f"{name}, CPU of both ends", [cpu for _, cpu in taken[size]], "s/GB")


def _fixed_pace(report: Report, scale: MovesScale, cluster: BenchCluster) -> None:
    size = int((scale.pace_seconds + 4) * FIXED) + (16 << 20)

    async def every() -> list[float]:
        await moves.make_topic(cluster.bootstrap, "held", 1, [1])
        await moves.fill(cluster.bootstrap, "held", size, batch_bytes=LARGE)
        return [
            await moves.held_pace(cluster, "held", seconds=scale.pace_seconds) / 1e6
            for _ in range(scale.repeats)
        ]

    name = f"copy at a fixed pace of {FIXED / 1e6:.1f} MB/s, over {scale.pace_seconds:g} s"
    report.add(name, uvloop.run(every()), "MB/s", against="that pace", their_value=FIXED / 1e6)


def _beside(report: Report, scale: MovesScale, cluster: BenchCluster) -> None:
    """Measure what clients reach alone, and with a copy beside them, in turns."""
    bootstrap = cluster.bootstrap
    taken: dict[tuple[str, str], list[float]] = {}

    async def once(how: str) -> None:
        waited = await moves.acknowledged_ms(bootstrap, "beside", rate=RATE, seconds=scale.seconds)
        ends = await latency.end_to_end_ms(bootstrap, "beside", rate=RATE, seconds=scale.seconds)
        count = max(50_000, int(scale.copy_bytes / 4000))
        rate = await throughput.produce_many(
            bootstrap, "beside", size=1000, count=count, acks="all"
        )
        taken.setdefault(("p99 of acknowledgements", how), []).append(quantile(waited, 0.99))
        taken.setdefault(("p99 from producer to consumer", how), []).append(quantile(ends, 0.99))
        taken.setdefault(("produce 1 KB RF 3 acks=all", how), []).append(rate)

    async def every() -> None:
        await throughput.make_topic(bootstrap, "beside", replication_factor=3)
        await moves.make_topic(bootstrap, "moving", 1, [1])
        await moves.fill(bootstrap, "moving", scale.copy_bytes, batch_bytes=LARGE)
        for _ in range(scale.repeats):
            for how in (ALONE, BESIDE):
                async with AsyncExitStack() as stack:
                    if how == BESIDE:
                        copying = moves.always_copying(bootstrap, "moving", [1, 2, 3])
                        await stack.enter_async_context(copying)
                    await once(how)

    uvloop.run(every())
    for what in dict.fromkeys(name for name, _ in taken):
        unit = "rec/s" if what.startswith("produce") else "ms"
        report.add(f"{what}, {ALONE}", taken[what, ALONE], unit)
        report.add(f"{what}, {BESIDE}", taken[what, BESIDE], unit, against=f"{what}, {ALONE}")


def _coordinator(report: Report, scale: MovesScale, home: Path) -> None:
    """Move a coordinator that has read its partition before it leads, and one that has not."""
    count = scale.offset_groups * coordinator_load.OFFSETS_A_GROUP
    group = f"load-{scale.offset_groups - 1}"

    async def every(cluster: BenchCluster) -> list[float]:
        where = cluster.bootstrap
        await moves.make_topic(where, "committed", coordinator_load.OFFSETS_A_GROUP, [1])
        await coordinator_load.fill(
            where,
            "committed",
            groups=scale.offset_groups,
            partitions=coordinator_load.OFFSETS_A_GROUP,
        )
        return [
            await coordinator_move.longest_silence_s(where, "committed", group, to=to) * 1000
            for to in (2, 1) * scale.repeats
        ]

    name = f"a coordinator of {count:,} offsets moves, longest time without an answer"
    for label, waited_ms in (("it reads when it leads", "0"), ("it has read before", "60000")):
        configs = coordinator_move.CONFIGS | {"coordinator_preload_timeout_ms": waited_ms}
        with BenchCluster(home / f"coordinator-{waited_ms}", brokers=2, configs=configs) as cluster:
            report.add(f"{name}, {label}", uvloop.run(every(cluster)), "ms")


def _plan(report: Report, scale: MovesScale) -> None:
    """Measure the planner in a process of its own: benchmarks know brokers from outside only."""
    command = [sys.executable, "-m", "oncelog_testing.turns", "--plan"]
    command += ["--quick"] if scale.many < FULL.many else []
    found = [
        json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        for _ in range(scale.repeats)
    ]
    name = f"plan for {found[0]['brokers']} brokers, {found[0]['partitions']:,} partitions"
    report.add(f"{name}, CPU", [each["cpu_s"] for each in found], "s")
    report.add(f"{name}, longest turn", [each["longest_turn_ms"] for each in found], "ms")
