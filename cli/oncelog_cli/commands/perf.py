"""``oncelog perf`` measures how fast a given cluster takes, hands out and carries records.

Rules: a run ends after a number of records or a time, whichever is first; what is measured is
printed once, at its end. Latencies are in milliseconds; percentiles are exact, over all samples.
(``oncelog bench`` is another thing: it measures this release on a cluster of its own.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.produce import AcksChoice, Compression
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import duration_ms
from oncelog_cli.options import TopicArgument, parsed
from oncelog_cli.render import Column, Output
from oncelog_cli.runner import run

if TYPE_CHECKING:
    from oncelog import Delivery, Producer

STEP_S = 0.02
"""The pause between two sends where a rate is wished for."""
AT_ONCE = 500
PERCENTILES = (50, 95, 99)

app = typed.App(help="Measure a given cluster: produce, consume, latency from end to end.")

RATE_COLUMNS = (
    Column("RECORDS", "records", right=True),
    Column("SECONDS", "seconds", right=True),
    Column("RECORDS/S", "records_per_second", right=True),
    Column("MIB/S", "mib_per_second", right=True),
)
LATENCY_COLUMNS = (
    Column("MEAN MS", "mean_ms", right=True),
    Column("P50", "p50_ms", right=True),
    Column("P95", "p95_ms", right=True),
    Column("P99", "p99_ms", right=True),
    Column("MAX", "max_ms", right=True),
)

RecordsOption = Annotated[
    int, typed.Option("--records", "-n", min=1, metavar="N", help="So many records.")
]
SizeOption = Annotated[int, typed.Option("--size", min=1, metavar="BYTES", help="Of each value.")]
SecondsOption = Annotated[
    str | None, typed.Option("--duration", metavar="DURATION", help="At most so long: 30s, 5m.")
]
RateOption = Annotated[
    float | None, typed.Option("--rate", min=0.001, metavar="N", help="Records a second, at most.")
]
AcksOption = Annotated[
    AcksChoice, typed.Option("--acks", metavar="all|1|0", help="Who must have a record.")
]
CompressionOption = Annotated[
    Compression,
    typed.Option("--compression", "-z", metavar="none|gzip|lz4|zstd", help="Of batches."),
]


@app.command()
def produce(
    output: Output,
    cluster: NamedCluster,
    topic: TopicArgument,
    records: RecordsOption = 100_000,
    size: SizeOption = 100,
    rate: RateOption = None,
    duration: SecondsOption = None,
    acks: AcksOption = AcksChoice.ALL,
    compression: CompressionOption = Compression.NONE,
) -> None:
    """Write records into a topic; tell the rate, and how long acknowledgements took."""
    limit_s = _limit(duration)
    settings = {"acks": acks.value, "compression_type": compression.value}

    async def work() -> dict[str, Any]:
        async with clients.producer(cluster.servers, **settings) as producer:
            await producer.partitions_for(topic)
            return await _Writing(producer, topic, bytes(size)).run(records, rate, limit_s)

    row = run(work())
    output.table((*RATE_COLUMNS, *LATENCY_COLUMNS), [row])
    output.finish({"topic": topic, "value_bytes": size, **row})


@app.command()
def consume(
    output: Output,
    cluster: NamedCluster,
    topic: TopicArgument,
    records: RecordsOption = 100_000,
    duration: SecondsOption = None,
) -> None:
    """Read a topic from its beginning to what is its end now; tell the rate."""
    limit_s = _limit(duration)
    row = run(_consume(cluster.servers, topic, records, limit_s))
    output.table(RATE_COLUMNS, [row])
    output.finish({"topic": topic, **row})


@app.command()
def latency(
    output: Output,
    cluster: NamedCluster,
    topic: TopicArgument,
    records: RecordsOption = 1_000,
    size: SizeOption = 100,
    acks: AcksOption = AcksChoice.ALL,
    duration: SecondsOption = None,
) -> None:
    """Write one record after the other and read each back; tell how long that took."""
    limit_s = _limit(duration)
    row = run(_latency(cluster.servers, topic, records, bytes(size), acks.value, limit_s))
    output.table((Column("RECORDS", "records", right=True), *LATENCY_COLUMNS), [row])
    output.finish({"topic": topic, "value_bytes": size, **row})


def _limit(duration: str | None) -> float | None:
    return None if duration is None else parsed("--duration", duration_ms, duration) / 1000


def percentiles(samples_s: Sequence[float]) -> dict[str, float | None]:
    """Return mean, percentiles and the largest, in ms; they are None without samples."""
    ordered = sorted(samples_s)
    if not ordered:
        return {"mean_ms": None, **{f"p{p}_ms": None for p in PERCENTILES}, "max_ms": None}
    last = len(ordered) - 1
    found = {f"p{p}_ms": ordered[round(last * p / 100)] for p in PERCENTILES}
    row = {"mean_ms": sum(ordered) / len(ordered), **found, "max_ms": ordered[last]}
    return {name: round(value * 1000, 3) for name, value in row.items()}


def _rates(records: int, size_bytes: int, seconds: float) -> dict[str, Any]:
    seconds = max(seconds, 1e-6)
    return {
        "records": records,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds, 1),
        "mib_per_second": round(size_bytes / seconds / 2**20, 2),
    }


class _Writing:
    """Records are written here by one run of ``perf produce``."""

    def __init__(self, producer: Producer, topic: str, value: bytes) -> None:
        self._producer = producer
        self._topic = topic
        self._value = value
        self._loop = asyncio.get_running_loop()
        self._samples_s: list[float] = []
        self._sampled = asyncio.Event()
        self._pending: list[Delivery] = []

    async def run(self, records: int, rate: float | None, limit_s: float | None) -> dict[str, Any]:
        """Send, and wait for all that was sent.

        :raises OncelogError: a record was not acknowledged.
        """
        began_s = self._loop.time()
        sent = 0
        while sent < records and (limit_s is None or self._loop.time() - began_s < limit_s):
            step = AT_ONCE if rate is None else max(1, int(rate * STEP_S))
            for _ in range(min(step, records - sent)):
                await self._send()
                sent += 1
            if rate is not None:
                await asyncio.sleep(max(began_s + sent / rate - self._loop.time(), 0))
        for delivery in self._pending:
            await delivery
        while len(self._samples_s) < sent:  # callbacks come after whoever awaits
            self._sampled.clear()
            await self._sampled.wait()
        row = _rates(sent, sent * len(self._value), self._loop.time() - began_s)
        return {**row, **percentiles(self._samples_s)}

    async def _send(self) -> None:
        began_s = self._loop.time()
        delivery = await self._producer.enqueue(self._topic, self._value)
        delivery.add_done_callback(lambda _: self._note(began_s))
        self._pending.append(delivery)
        if len(self._pending) >= 10 * AT_ONCE:
            done, self._pending = self._pending[:AT_ONCE], self._pending[AT_ONCE:]
            for earlier in done:
                await earlier

    def _note(self, began_s: float) -> None:
        self._samples_s.append(self._loop.time() - began_s)
        self._sampled.set()


async def _consume(servers: str, topic: str, records: int, limit_s: float | None) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    async with clients.consumer(servers, topic, auto_offset_reset="earliest") as consumer:
        partitions = consumer.assignment()
        ends = await consumer.end_offsets(partitions)
        starts = await consumer.beginning_offsets(partitions)
        left = {tp for tp in partitions if starts[tp] < ends[tp]}
        for tp in partitions:
            consumer.seek(tp, starts[tp])
        began_s = loop.time()
        count = size = 0
        while left and count < records and (limit_s is None or loop.time() - began_s < limit_s):
            for found in (await consumer.getmany(timeout_ms=500)).values():
                count += len(found)
                size += sum(len(each.value or b"") + len(each.key or b"") for each in found)
            left = {tp for tp in sorted(left) if await consumer.position(tp) < ends[tp]}
        return _rates(count, size, loop.time() - began_s)


async def _latency(
    servers: str, topic: str, records: int, value: bytes, acks: str, limit_s: float | None
) -> dict[str, Any]:
    """Measure how long records take from sending to reading.

    :raises CommandError: a record did not come back.
    """
    loop = asyncio.get_running_loop()
    samples_s: list[float] = []
    async with (
        clients.consumer(servers, topic, auto_offset_reset="latest") as consumer,
        clients.producer(servers, acks=acks, linger_ms=0) as producer,
    ):
        partitions = consumer.assignment()
        for tp, end in (await consumer.end_offsets(partitions)).items():
            consumer.seek(tp, end)
        first = partitions[0]
        ends_s = None if limit_s is None else loop.time() + limit_s
        for number in range(records):
            if ends_s is not None and loop.time() >= ends_s:
                break
            key = b"%d" % number
            began_s = loop.time()
            await producer.enqueue(topic, value, key=key, partition=first.partition)
            async with asyncio.timeout(30):
                while not any(
                    record.key == key
                    for found in (await consumer.getmany(timeout_ms=1000)).values()
                    for record in found
                ):
                    if loop.time() - began_s > 20:
                        raise CommandError(f"record {number} did not come back within 20 s")
            samples_s.append(loop.time() - began_s)
    return {"records": len(samples_s), **percentiles(samples_s)}
