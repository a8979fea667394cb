"""What members that are clients of Kafka tell each other is read as Kafka's own schemas say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.kafka.wire.codec import decode, encode
from oncelog_broker.kafka.wire.messages.consumer_protocol_assignment import (
    KafkaConsumerProtocolAssignment,
)
from oncelog_broker.kafka.wire.messages.consumer_protocol_subscription import (
    KafkaConsumerProtocolSubscription,
)
from oncelog_protocol.consumer_protocol import decode_assignment, decode_subscription
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.kafka_consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_kafka_assignment,
    encode_kafka_subscription,
)
from oncelog_protocol.types import TopicPartition
from support.kafka_messages import kafka_messages


def partitions_of(rows: list[object]) -> list[TopicPartition]:
    return [
        TopicPartition(row.topic, number)  # type: ignore[attr-defined]
        for row in rows
        for number in row.partitions  # type: ignore[attr-defined]
    ]


@given(st.data(), st.integers(0, 3))
def test_subscriptions_are_those_of_the_schema(data: st.DataObject, version: int) -> None:
    told = data.draw(kafka_messages(KafkaConsumerProtocolSubscription, version))
    head = version.to_bytes(2, "big")
    read = decode_subscription(head + b"".join(bytes(each) for each in encode(told, version)))
    assert read == ConsumerSubscription(
        tuple(told.topics),
        tuple(partitions_of(told.owned_partitions)),
        told.generation_id,
        told.rack_id,
        told.user_data or b"",
    )
    again = encode_kafka_subscription(read)
    known = decode(KafkaConsumerProtocolSubscription, 1, memoryview(again), 2)
    assert (known.topics, known.user_data) == (told.topics, told.user_data or b"")
    assert set(partitions_of(known.owned_partitions)) == set(read.owned)  # type: ignore[arg-type]


@given(st.data(), st.integers(0, 3))
def test_assignments_are_those_of_the_schema(data: st.DataObject, version: int) -> None:
    told = data.draw(kafka_messages(KafkaConsumerProtocolAssignment, version))
    head = version.to_bytes(2, "big")
    read = decode_assignment(head + b"".join(bytes(each) for each in encode(told, version)))
    assert read.user_data == (told.user_data or b"")
    assert read.partitions == tuple(partitions_of(told.assigned_partitions))
    assert set(decode_assignment(encode_kafka_assignment(read)).partitions) == set(read.partitions)


def test_a_newer_version_begins_as_the_newest_that_is_known() -> None:
    newer = b"\0\x09" + encode_kafka_subscription(ConsumerSubscription(("t",)))[2:]
    newer += b"\0\0\0\x07" + b"\0\x01r" + b"what comes later"
    assert decode_subscription(newer) == ConsumerSubscription(("t",), (), 7, "r")


@given(st.binary(max_size=60))
def test_bytes_that_are_none_are_refused(data: bytes) -> None:
    for read in (decode_subscription, decode_assignment):
        try:
            read(b"\0" + data)
        except InvalidRequestError:
            pass


@pytest.mark.parametrize("count", [2, 2**31 - 1])
def test_items_that_are_not_there_take_nothing(count: int) -> None:
    with pytest.raises(InvalidRequestError):
        decode_subscription(bytes(2) + count.to_bytes(4, "big") + b"\0")


def test_no_partitions() -> None:
    assert decode_assignment(encode_kafka_assignment(ConsumerAssignment(()))) == ConsumerAssignment(
        ()
    )
