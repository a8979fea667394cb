"""One Produce request has its bytes, and its errors have a meaning."""

from __future__ import annotations

import pytest

from oncelog.errors import ClosedError, ConnectionLostError
from oncelog.producer.partition_queue import Batch, PartitionQueue
from oncelog.producer.produce import closed_error, produce_error, produce_request
from oncelog_protocol.errors import MessageTooLargeError, NotLeaderOrFollowerError
from oncelog_protocol.messages.produce import ProducePartitionResponse
from oncelog_protocol.types import Acks, TopicPartition


def batch(topic: str, partition: int, encoded: bytes) -> Batch:
    queue = PartitionQueue(TopicPartition(topic, partition), backoff=None)  # type: ignore[arg-type]
    made = Batch(queue, 0.0, 0)
    made.encoded = bytearray(encoded)
    return made


def test_batches_follow_each_other_by_topic() -> None:
    batches = [batch("a", 1, b"one"), batch("b", 0, b"second"), batch("a", 0, b"3")]
    request, payload = produce_request(batches, Acks.ALL, 500)
    assert b"".join(payload) == b"one3second"
    assert (request.acks, request.timeout_ms) == (-1, 500)
    found = [
        (topic.topic, item.partition, item.batch.offset, item.batch.length)
        for topic in request.topics
        for item in topic.partitions
    ]
    assert found == [("a", 1, 0, 3), ("a", 0, 3, 1), ("b", 0, 4, 6)]


@pytest.mark.parametrize("sent", ["never", "answered", "in flight"])
def test_only_what_was_never_sent_is_surely_not_written(sent: str) -> None:
    made = batch("t", 0, b"x")
    made.attempts = int(sent != "never")
    made.maybe_written = sent == "answered"
    if sent == "in flight":
        made.queue.in_flight.append(made)
    cause = OSError("gone")
    error = closed_error("the end", cause, made)
    assert type(error) is (ClosedError if sent == "never" else ConnectionLostError)
    assert error.__cause__ is cause


def test_an_error_names_the_partition_and_what_helps() -> None:
    made = batch("t", 3, b"x" * 70)
    error = produce_error(made, ProducePartitionResponse(3, NotLeaderOrFollowerError.code))
    assert "t-3" in str(error)
    error = produce_error(made, ProducePartitionResponse(3, MessageTooLargeError.code))
    assert "70 bytes" in str(error)
    assert "max_message_bytes" in str(error)
