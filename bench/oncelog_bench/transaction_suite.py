"""Idempotence and transactions are measured in the order of ``docs/performance.md``.

As in ``suite``: medians of repeats inside one process; what is set against each other takes turns,
on the same topic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop

from oncelog_bench import throughput, transactions
from oncelog_bench.cluster import BenchCluster
from oncelog_bench.report import Report
from oncelog_bench.throughput import Work

SIZE = 1000
TXN_S = 0.1
ABORT_EVERY = 10


@dataclass(frozen=True, slots=True)
class TransactionScale:
    """Each figure does so much work."""

    repeats: int
    seconds: float
    """The seconds of one repeat of a rate."""
    ids: tuple[int, ...]
    partitions: tuple[int, ...]
    rounds: int
    """The rounds of transactions over these partitions."""


FULL = TransactionScale(5, 4.0, (1, 50), (1, 10, 100), 30)
QUICK = TransactionScale(1, 1.0, (1, 10), (1, 10), 5)


def run(report: Report, scale: TransactionScale, wanted: Callable[[str], bool], home: Path) -> None:
    """Measure the group "transactions", if wanted."""
    if not wanted("transactions"):
        return
    with BenchCluster(home / "transactions") as cluster:
        for _ in range(2):  # not counted: memory is touched, code is loaded
            _on_topic(cluster, transactions.PARTITIONS, _plain(scale, "all"))
        _rates(report, scale, cluster)
        _per_second(report, scale, cluster)
        _markers(report, scale, cluster)
        _reading(report, scale, cluster)


def _on_topic(cluster: BenchCluster, partitions: int, work: Work) -> float:
    """Run ``work(bootstrap, topic)`` on a fresh topic that is dropped afterwards."""

    async def whole() -> float:
        await transactions.make_topic(cluster.bootstrap, "bench", partitions)
        try:
            return await work(cluster.bootstrap, "bench")
        finally:
            await throughput.drop_topic(cluster.bootstrap, "bench")

    return uvloop.run(whole())


def _plain(scale: TransactionScale, acks: throughput.Acks, *, idempotent: bool = True) -> Work:
    return partial(
        transactions.produce, size=SIZE, seconds=scale.seconds, acks=acks, idempotent=idempotent
    )


def _rates(report: Report, scale: TransactionScale, cluster: BenchCluster) -> None:
    """Measure what transactions of 100 ms cost, with records of 1 KB and RF 3."""
    works: dict[str, Work] = {
        "acks=all, no idempotence": _plain(scale, "all", idempotent=False),
        "acks=1, five in flight": _plain(scale, 1, idempotent=False),
        "acks=all, idempotent": _plain(scale, "all"),
        "transactions of 100 ms": partial(
            transactions.produce_in_transactions, size=SIZE, seconds=scale.seconds, txn_s=TXN_S
        ),
    }
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(scale.repeats):
        for name, work in works.items():
            taken[name].append(_on_topic(cluster, transactions.PARTITIONS, work))
    values = {f"1 KB RF 3, {name}": rates for name, rates in taken.items()}
    plain, one, idempotent, txn = values
    report.add(plain, values[plain], "rec/s")
    report.add(one, values[one], "rec/s")
    report.add(idempotent, values[idempotent], "rec/s", against=plain)
    report.add(txn, values[txn], "rec/s", against=idempotent)
    report.add(f"{txn} ", values[txn], "rec/s", against=one)


def _per_second(report: Report, scale: TransactionScale, cluster: BenchCluster) -> None:
    for ids in scale.ids:
        work: Work = partial(transactions.per_second, ids=ids, seconds=scale.seconds)
        rates = [_on_topic(cluster, transactions.PARTITIONS, work) for _ in range(scale.repeats)]
        report.add(f"transactions of one record, {ids} transactional ids", rates, "txn/s")


def _markers(report: Report, scale: TransactionScale, cluster: BenchCluster) -> None:
    """Measure a transaction with a record to each partition, beside the same without."""
    extra: dict[int, float] = {}
    for partitions in scale.partitions:
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(scale.repeats):
            for transactional, times in found.items():
                work: Work = partial(
                    transactions.over_partitions,
                    partitions=partitions,
                    count=scale.rounds,
                    transactional=transactional,
                )
                times.append(_on_topic(cluster, partitions, work))
        name = f"a record to each of {partitions} partitions, acks=all"
        without = report.add(name, found[False], "ms")
        same = f"the same as one transaction, {partitions} partitions"
        inside = report.add(same, found[True], "ms", against=name)
        extra[partitions] = inside - without
    low, high = min(extra), max(extra)
    each = (extra[high] - extra[low]) / (high - low)
    report.add("cost of a partition more in a transaction (added, marked)", [each], "ms")


def _reading(report: Report, scale: TransactionScale, cluster: BenchCluster) -> None:
    """Measure reading at both levels, in turns: every tenth transaction of the log is aborted."""
    levels: tuple[transactions.Isolation, ...] = ("read_uncommitted", "read_committed")
    taken: dict[tuple[bool, str], list[float]] = {}

    async def work(bootstrap: str, topic: str) -> float:
        await transactions.produce_in_transactions(
            bootstrap, topic, size=100, seconds=scale.seconds, txn_s=0.02, abort_every=ABORT_EVERY
        )
        for _ in range(scale.repeats):
            for columns in (True, False):
                for level in levels:
                    rate = await transactions.read_through(
                        bootstrap, topic, isolation=level, columns=columns
                    )
                    taken.setdefault((columns, level), []).append(rate)
        return 0.0

    _on_topic(cluster, transactions.PARTITIONS, work)
    for columns, how in ((True, "by column batch"), (False, "by record")):
        every, committed = (f"through a log with 10 % aborted, {level}, {how}" for level in levels)
        report.add(every, taken[columns, levels[0]], "rec/s")
        report.add(committed, taken[columns, levels[1]], "rec/s", against=every)
