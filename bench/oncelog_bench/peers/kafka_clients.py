"""Apache Kafka is measured through its Python clients, by one function a figure.

The shape of the work is that of ``oncelog_bench.throughput`` and ``latency``: six partitions,
values of one size, no keys, no compression, all acknowledged before the clock stops.
"""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

PARTITIONS = 6


def _quiet(bootstrap: str, **settings: Any) -> dict[str, Any]:
    """Return settings of librdkafka, which else tells of every connection that a test closes."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    quiet = {"log_level": 0, "log.connection.close": False}
    return {"bootstrap.servers": bootstrap, **quiet, **named}


def _over_tls(ca_file: Path | None) -> dict[str, Any]:
    """Return librdkafka's settings of TLS; none without a CA."""
    if ca_file is None:
        return {}
    return {"security.protocol": "SSL", "ssl.ca.location": str(ca_file)}


def _reading(bootstrap: str) -> dict[str, Any]:
    group = f"bench-{time.time()}"
    return _quiet(bootstrap, group_id=group, enable_auto_commit=False)


def make_topic(bootstrap: str, name: str, replication_factor: int, **configs: str) -> None:
    """Create a topic, and wait until all its replicas are in sync.

    min.insync.replicas is 2 at replication factor 3.
    """
    from confluent_kafka.admin import AdminClient, NewTopic

    configs = {"file.delete.delay.ms": "1000", **configs}
    if replication_factor == 3:
        configs = {"min.insync.replicas": "2", **configs}
    admin = AdminClient(_quiet(bootstrap))
    topic = NewTopic(name, PARTITIONS, replication_factor, config=configs)
    for future in admin.create_topics([topic], operation_timeout=20).values():
        future.result()
    deadline = time.monotonic() + 20
    while not _is_whole(admin.list_topics(name, timeout=10).topics[name], replication_factor):
        if time.monotonic() > deadline:
            raise RuntimeError(f"topic {name} has not all its replicas in sync after 20 s")
        time.sleep(0.1)


def _is_whole(topic: Any, replication_factor: int) -> bool:
    """Return whether each partition has a leader, and all replicas in sync."""
    partitions = topic.partitions.values()
    return len(partitions) == PARTITIONS and all(
        partition.leader >= 0 and len(partition.isrs) == replication_factor
        for partition in partitions
    )


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(_quiet(bootstrap))
    for future in admin.delete_topics([name], operation_timeout=20).values():
        future.result()


def records_in(bootstrap: str, topic: str) -> int:
    """Return how many records a topic has that are committed."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(_reading(bootstrap))
    count = 0
    for index in range(PARTITIONS):
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=20)
        count += int(end - first)
    consumer.close()
    return count


def confluent_produce(
    bootstrap: str,
    topic: str,
    *,
    size: int,
    count: int,
    acks: str,
    ca_file: Path | None = None,
    batch_bytes: int = 512 * 1024,
) -> float:
    """Return the records/s of confluent-kafka (librdkafka), idempotent where acks is all."""
    from confluent_kafka import Producer

    buffering = {
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 512 * 1024,
        "batch.size": batch_bytes,
    }
    idempotent = acks == "all"
    producer = Producer(
        _quiet(bootstrap, acks=acks, enable_idempotence=idempotent, linger_ms=5)
        | buffering
        | _over_tls(ca_file)
    )
    value = b"x" * size
    producer.produce(topic, value)
    producer.flush()
    began = time.perf_counter()
    sent = 0
    while sent < count:
        try:
            producer.produce(topic, value)
            sent += 1
        except BufferError:
            producer.poll(0.05)
    producer.flush()
    return count / (time.perf_counter() - began)


def aiokafka_produce(bootstrap: str, topic: str, *, size: int, count: int, acks: str) -> float:
    """Records/s of aiokafka: ``await send()`` hands back a future, all are awaited."""
    return asyncio.run(_aiokafka_produce(bootstrap, topic, size, count, acks))


async def _aiokafka_produce(bootstrap: str, topic: str, size: int, count: int, acks: str) -> float:
    from aiokafka import AIOKafkaProducer

    level: Any = acks if acks == "all" else int(acks)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        acks=level,
        enable_idempotence=acks == "all",
        linger_ms=5,
        max_batch_size=262_144,
    )
    await producer.start()
    try:
        value = b"x" * size
        await producer.send_and_wait(topic, value)
        began = time.perf_counter()
        pending = []
        for _ in range(count):
            pending.append(await producer.send(topic, value))
            if len(pending) >= 10_000:
                await asyncio.gather(*pending)
                pending = []
        await producer.flush()
        return count / (time.perf_counter() - began)
    finally:
        await producer.stop()


def kafka_python_produce(bootstrap: str, topic: str, *, size: int, count: int, acks: str) -> float:
    """Return the records/s of kafka-python."""
    from kafka import KafkaProducer

    level: Any = acks if acks == "all" else int(acks)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks=level,
        enable_idempotence=acks == "all",
        linger_ms=5,
        batch_size=262_144,
    )
    value = b"x" * size
    producer.send(topic, value).get(30)
    began = time.perf_counter()
    for _ in range(count):
        producer.send(topic, value)
    producer.flush()
    elapsed = time.perf_counter() - began
    producer.close()
    return count / elapsed


def confluent_consume(
    bootstrap: str, topic: str, *, count: int, ca_file: Path | None = None
) -> float:
    """Return the records/s of ``consume(10000)``, from the beginning."""
    from confluent_kafka import Consumer, TopicPartition

    prefetching = {
        "queued.max.messages.kbytes": 1 << 20,
        "queued.min.messages": 1_000_000,
        "fetch.message.max.bytes": 4 << 20,
    }
    consumer = Consumer(_reading(bootstrap) | prefetching | _over_tls(ca_file))
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    seen = 0
    began = time.perf_counter()
    while seen < count:
        messages = consumer.consume(10_000, 0.5)
        for message in messages:
            message.value()
        seen += len(messages)
    elapsed = time.perf_counter() - began
    consumer.close()
    return seen / elapsed


def aiokafka_consume(bootstrap: str, topic: str, *, count: int) -> float:
    """Return the records/s of aiokafka's ``getmany``."""
    return asyncio.run(_aiokafka_consume(bootstrap, topic, count))


async def _aiokafka_consume(bootstrap: str, topic: str, count: int) -> float:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4 << 20,
    )
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        seen = 0
        began = time.perf_counter()
        while seen < count:
            for messages in (await consumer.getmany(timeout_ms=1000, max_records=10_000)).values():
                seen += len(messages)
        return seen / (time.perf_counter() - began)
    finally:
        await consumer.stop()


def end_to_end_ms(bootstrap: str, topic: str, *, rate: int, seconds: float) -> list[float]:
    """Return latencies in ms through confluent-kafka at acks=all, linger 0.

    The first fifth of them is dropped.
    """
    from confluent_kafka import Consumer, Producer, TopicPartition

    latencies: list[float] = []
    stop = threading.Event()
    consumer = Consumer(_reading(bootstrap) | {"fetch.min.bytes": 1})
    consumer.assign([TopicPartition(topic, index, -1) for index in range(PARTITIONS)])
    for _ in range(20):
        consumer.poll(0.1)

    def read() -> None:
        while not stop.is_set():
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                latencies.append((time.perf_counter() - float(message.value()[:20])) * 1000)

    reader = threading.Thread(target=read)
    reader.start()
    producer = Producer(_quiet(bootstrap, acks="all", enable_idempotence=True, linger_ms=0))
    began = time.perf_counter()
    sent = 0
    while sent < rate * seconds:
        due = int((time.perf_counter() - began) * rate)
        while sent < due:
            producer.produce(topic, (b"%020.9f" % time.perf_counter()) + b"x" * 80)
            sent += 1
        producer.poll(0)
        time.sleep(0.0005)
    producer.flush()
    time.sleep(1)
    stop.set()
    reader.join()
    consumer.close()
    return latencies[len(latencies) // 5 :]


def failover_seconds(bootstrap: str, topic: str, kill_leader: Any) -> float:
    """Return the seconds from ``kill_leader()`` to the first acknowledgement of a later record."""
    from confluent_kafka import Producer

    killed_at = 0.0
    acked_at = 0.0

    def on_delivery(sent_at: float, error: object, _message: object) -> None:
        nonlocal acked_at
        if error is None and killed_at and sent_at > killed_at and not acked_at:
            acked_at = time.perf_counter()

    producer = Producer(_quiet(bootstrap, acks="all", enable_idempotence=True, linger_ms=0))
    began = time.perf_counter()
    while not acked_at and time.perf_counter() - began < 90:
        sent_at = time.perf_counter()
        if not killed_at and sent_at - began > 2:
            kill_leader()
            killed_at = time.perf_counter()
        producer.produce(topic, b"x" * 100, partition=0, callback=partial(on_delivery, sent_at))
        producer.poll(0)
        time.sleep(0.002)
    return acked_at - killed_at


def make_idle_topic(bootstrap: str, name: str) -> None:
    """Create a topic of six idle partitions at replication factor 3, without waiting."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(_quiet(bootstrap))
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 3)]).values():
        future.result()


def leader_of(bootstrap: str, topic: str, partition: int) -> int:
    """Return the broker id of the leader of a partition."""
    from confluent_kafka.admin import AdminClient

    metadata = AdminClient(_quiet(bootstrap)).list_topics(topic, timeout=10)
    return int(metadata.topics[topic].partitions[partition].leader)
