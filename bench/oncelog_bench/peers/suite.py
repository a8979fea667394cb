"""Apache Kafka's figures are measured in the same run, each beside one of ours."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from functools import partial
from pathlib import Path

from oncelog_bench import idle, moves_suite
from oncelog_bench.cluster import make_certificates
from oncelog_bench.peers import kafka_clients as clients
from oncelog_bench.peers import same_programs
from oncelog_bench.peers.kafka_cluster import KafkaCluster, cache_directory, fetch_jars
from oncelog_bench.peers.kafka_moves import KafkaMoves
from oncelog_bench.report import Report, quantile
from oncelog_bench.suite import PROGRAMS, SIZES, Scale

EMPTY_MOVE = "Kafka: an empty partition moves, asked to done, median"
COPY = "Kafka: copy, 1 KB records, batches of 128 KiB"
COPY_CPU = f"{COPY}, CPU of both ends"
PAIRS = {
    "produce 100 B RF 3 acks=all send_many": "Kafka: confluent 100 B RF 3 acks=all",
    "produce 100 B RF 3 acks=all send": "Kafka: aiokafka 100 B RF 3 acks=all",
    "produce 1 KB RF 3 acks=all send_many": "Kafka: confluent 1 KB RF 3 acks=all",
    "produce 1 KB RF 3 acks=all send": "Kafka: confluent 1 KB RF 3 acks=all",
    "produce 100 B RF 1 acks=1 send_many": "Kafka: confluent 100 B RF 1 acks=1",
    "produce 1 KB RF 1 acks=1 send_many": "Kafka: confluent 1 KB RF 1 acks=1",
    "produce 1 KB RF 1 acks=1 send": "Kafka: aiokafka 1 KB RF 1 acks=1",
    "consume 100 B by record": "Kafka: confluent consume 100 B",
    "consume 100 B by column batch": "Kafka: confluent consume 100 B",
    "consume 100 B by Arrow": "Kafka: confluent consume 100 B",
    "consume 1 KB by record": "Kafka: confluent consume 1 KB",
    "end to end at 1,000 rec/s RF 3 acks=all synced, p50": "Kafka: end to end unsynced, p50",
    "end to end at 1,000 rec/s RF 3 acks=all synced, p99": "Kafka: end to end unsynced, p99",
    "end to end at 1,000 rec/s RF 3 acks=all synced, p99.9": "Kafka: end to end unsynced, p99.9",
    "produce 1 KB, RF 3, TLS for clients": "Kafka: confluent 1 KB RF 3 acks=all, TLS for clients",
    "consume by column batch 1 KB, RF 3, TLS for clients": "Kafka: confluent consume 1 KB, TLS",
    "leader killed to next acknowledgement, median": "Kafka: leader killed to next acknowledgement",
    moves_suite.EMPTY_ROW: EMPTY_MOVE,
    moves_suite.COPY_ROW: COPY,
    moves_suite.CPU_ROW: COPY_CPU,
    "idle CPU per broker, 300 partitions of RF 3": "Kafka: idle CPU per broker, 300 partitions",
    "memory per broker, 300 partitions of RF 3": "Kafka: memory per broker, 300 partitions",
}


def run(report: Report, scale: Scale, only: frozenset[str], *, warm_seconds: float) -> None:
    """Make Kafka run and warm, and measure it into ``report``.

    :param only: the groups that were asked for, all where it is empty. Of Kafka's own figures all
        are measured, unless ``PROGRAMS`` alone was asked for.
    :raises RuntimeError: Kafka, or one of its programs, cannot be had or has failed.
    """
    jars = fetch_jars(cache_directory())
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-kafka-") as scratch,
        KafkaCluster(
            Path(scratch) / "kafka", jars, make_certificates(Path(scratch) / "tls")
        ) as cluster,
    ):
        _warm(cluster.bootstrap, warm_seconds)
        if not only or PROGRAMS in only:
            same_programs.run(report, scale, cluster, jars, Path(scratch))
        if only == {PROGRAMS}:
            return
        _produce(report, scale, cluster.bootstrap)
        _consume(report, scale, cluster.bootstrap)
        _over_tls(report, scale, cluster, Path(scratch) / "tls" / "ca.pem")
        _latency(report, scale, cluster.bootstrap)
        moving(report, scale.moves, cluster)
        _idle(report, scale, cluster)
        _failover(report, cluster)


def compare(report: Report) -> None:
    """Set each of our rows beside its peer."""
    for ours, theirs in PAIRS.items():
        report.compare(ours, theirs)


def _warm(bootstrap: str, seconds: float) -> None:
    """The first minutes of a JVM's life give a third of its speed."""
    clients.make_topic(bootstrap, "warm", 3)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        clients.confluent_produce(bootstrap, "warm", size=100, count=100_000, acks="all")
    clients.delete_topic(bootstrap, "warm")


def _produce(report: Report, scale: Scale, bootstrap: str) -> None:
    for factor, acks in ((3, "all"), (1, "1")):
        for size, label in SIZES.items():
            count = scale.bytes_total // max(size, 300)
            topic = f"produce-{factor}-{size}"
            clients.make_topic(bootstrap, topic, factor)
            few = max(10_000, count // 10)
            works = {
                "confluent": partial(clients.confluent_produce, count=count),
                "aiokafka": partial(clients.aiokafka_produce, count=few),
                "kafka-python": partial(clients.kafka_python_produce, count=few),
            }
            for name, work in works.items():
                rates = [work(bootstrap, topic, size=size, acks=acks) for _ in range(scale.repeats)]
                report.add(f"Kafka: {name} {label} RF {factor} acks={acks}", rates, "rec/s")
            clients.delete_topic(bootstrap, topic)


def _consume(report: Report, scale: Scale, bootstrap: str) -> None:
    for size, label in SIZES.items():
        count = scale.bytes_total // max(size, 300)
        topic = f"consume-{size}"
        clients.make_topic(bootstrap, topic, 3)
        clients.confluent_produce(bootstrap, topic, size=size, count=count, acks="all")
        works = {"confluent": clients.confluent_consume, "aiokafka": clients.aiokafka_consume}
        for name, work in works.items():
            rates = [work(bootstrap, topic, count=count) for _ in range(scale.repeats)]
            report.add(f"Kafka: {name} consume {label}", rates, "rec/s")
        clients.delete_topic(bootstrap, topic)


def _over_tls(report: Report, scale: Scale, cluster: KafkaCluster, ca_file: Path) -> None:
    """Measure 1 KB records over TLS between clients and brokers; brokers speak plainly."""
    count, topic = scale.security.records, "over-tls"
    clients.make_topic(cluster.bootstrap, topic, 3)
    bootstrap = cluster.tls_bootstrap
    made = [
        clients.confluent_produce(
            bootstrap, topic, size=1000, count=count, acks="all", ca_file=ca_file
        )
        for _ in range(scale.repeats)
    ]
    report.add("Kafka: confluent 1 KB RF 3 acks=all, TLS for clients", made, "rec/s")
    read = [
        clients.confluent_consume(bootstrap, topic, count=count, ca_file=ca_file)
        for _ in range(scale.repeats)
    ]
    report.add("Kafka: confluent consume 1 KB, TLS", read, "rec/s")
    clients.delete_topic(cluster.bootstrap, topic)


def _latency(report: Report, scale: Scale, bootstrap: str) -> None:
    for label, configs in (("unsynced", {}), ("flush.messages=1", {"flush.messages": "1"})):
        topic = f"latency-{label.replace('=', '-')}"
        clients.make_topic(bootstrap, topic, 3, **configs)
        marks: dict[str, list[float]] = {"p50": [], "p99": [], "p99.9": []}
        for _ in range(scale.repeats):
            values = clients.end_to_end_ms(
                bootstrap, topic, rate=1000, seconds=scale.latency_seconds
            )
            for mark, taken in marks.items():
                taken.append(quantile(values, float(mark[1:]) / 100))
        for mark, taken in marks.items():
            report.add(f"Kafka: end to end {label}, {mark}", taken, "ms")
        clients.delete_topic(bootstrap, topic)


def moving(report: Report, scale: moves_suite.MovesScale, cluster: KafkaCluster) -> None:
    """Measure how Kafka moves a partition that has one replica."""
    with KafkaMoves(cluster) as moves:
        moves.make_topic("empty")
        moves.empty_ms("empty", count=2)  # not counted
        taken = moves.empty_ms("empty", count=scale.empty)
        report.add(EMPTY_MOVE, taken, "ms")
        moves.make_topic("copied")
        moves.fill("copied", scale.copy_bytes, batch_bytes=moves_suite.LARGE)
        turns = [moves.copied("copied", scale.copy_bytes) for _ in range(scale.repeats + 1)][1:]
    report.add(COPY, [rate for rate, _ in turns], "MB/s")
    report.add(COPY_CPU, [cpu for _, cpu in turns], "s/GB")
    for topic in ("empty", "copied"):
        clients.delete_topic(cluster.bootstrap, topic)


def _idle(report: Report, scale: Scale, cluster: KafkaCluster) -> None:
    for index in range(50):
        clients.make_idle_topic(cluster.bootstrap, f"idle-{index}")
    idle.idle(cluster.pids, seconds=5.0)
    cpu, memory = idle.idle(cluster.pids, seconds=scale.idle_seconds)
    report.add("Kafka: idle CPU per broker, 300 partitions", cpu, "% of a core")
    report.add("Kafka: memory per broker, 300 partitions", memory, "MB")
    for index in range(50):
        clients.delete_topic(cluster.bootstrap, f"idle-{index}")


def _failover(report: Report, cluster: KafkaCluster) -> None:
    clients.make_topic(cluster.bootstrap, "failover", 3)
    leader = clients.leader_of(cluster.bootstrap, "failover", 0)
    pid = cluster.pids[leader - 1]
    seconds = clients.failover_seconds(
        cluster.bootstrap, "failover", lambda: os.kill(pid, signal.SIGKILL)
    )
    report.add("Kafka: leader killed to next acknowledgement", [seconds], "s")
