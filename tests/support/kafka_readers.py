"""Here are functions by which clients of Kafka read a whole partition."""

from __future__ import annotations

import warnings

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in an old way
    import kafka

__all__ = ["read_with_confluent", "read_with_kafka_python"]

SILENCE_S = 60.0


def read_with_confluent(servers: str, topic: str, isolation: str) -> list[bytes]:
    """Return the values of partition 0 from its beginning to its end.

    :param isolation: ``read_committed`` or ``read_uncommitted``.
    :raises TimeoutError: nothing has come for a minute.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers, "group.id": "none", "isolation.level": isolation,
            "enable.auto.commit": False, "enable.partition.eof": True,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(SILENCE_S)
            if message is None:
                raise TimeoutError(f"{len(values)} values, then neither more nor the end")
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return values
            assert error is None, error
            values.append(message.value())
    finally:
        consumer.close()


def read_with_kafka_python(servers: str, topic: str, count: int) -> list[bytes]:
    """Return the first ``count`` committed values of partition 0, and what came with them."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed")
    where = kafka.TopicPartition(topic, 0)
    consumer.assign([where])
    consumer.seek_to_beginning()
    values: list[bytes] = []
    try:
        while len(values) < count:
            batches = consumer.poll(timeout_ms=500)
            values += [each.value for batch in batches.values() for each in batch]
    finally:
        consumer.close()
    return values
