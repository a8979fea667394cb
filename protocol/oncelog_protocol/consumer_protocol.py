"""Members of a consumer group tell each other this through JoinGroup and SyncGroup. Pure.

Both are msgpack arrays that begin with a version. A reader takes newer versions and ignores fields
that it does not know, so that releases can share a group. Brokers carry them as they are; they look
inside only to say who is subscribed to what (DescribeGroups, OffsetDelete).

Clients of Kafka say the same in other bytes (``kafka_consumer_protocol``). Both are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgpack

from oncelog_protocol import limits
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.kafka_consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_kafka_assignment,
    decode_kafka_subscription,
    is_of_kafka,
)
from oncelog_protocol.types import TopicPartition

__all__ = [
    "PROTOCOL_TYPE",
    "VERSION",
    "ConsumerAssignment",
    "ConsumerSubscription",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "is_of_kafka",
]

PROTOCOL_TYPE = "consumer"
VERSION = 0


def encode_subscription(subscription: ConsumerSubscription) -> bytes:
    """Return the bytes for JoinGroup."""
    return _pack(
        [
            VERSION,
            list(subscription.topics),
            _by_topic(subscription.owned),
            subscription.generation,
            subscription.rack,
            subscription.user_data,
        ]
    )


def decode_subscription(data: bytes) -> ConsumerSubscription:
    """Return what a member wants, in whichever words it says so.

    :raises InvalidRequestError: the bytes are not a subscription.
    """
    if is_of_kafka(data):
        return decode_kafka_subscription(data)
    fields = _unpack(data, 6)
    _, topics, owned, generation, rack, user_data = fields[:6]
    if (
        not _is_names(topics)
        or type(generation) is not int
        or not (rack is None or isinstance(rack, str))
        or not isinstance(user_data, bytes)
    ):
        raise InvalidRequestError("not a consumer subscription")
    return ConsumerSubscription(tuple(topics), _partitions(owned), generation, rack, user_data)


def encode_assignment(assignment: ConsumerAssignment) -> bytes:
    """Return the bytes for SyncGroup."""
    return _pack([VERSION, _by_topic(assignment.partitions), assignment.user_data])


def decode_assignment(data: bytes) -> ConsumerAssignment:
    """No bytes at all are no partitions: a member that the leader has left out.

    :raises InvalidRequestError: the bytes are not an assignment.
    """
    if not data:
        return ConsumerAssignment(())
    if is_of_kafka(data):
        return decode_kafka_assignment(data)
    _, partitions, user_data = _unpack(data, 3)[:3]
    if not isinstance(user_data, bytes):
        raise InvalidRequestError("not a consumer assignment")
    return ConsumerAssignment(_partitions(partitions), user_data)


def _pack(fields: list[Any]) -> bytes:
    packed: bytes = msgpack.packb(fields)
    if len(packed) > limits.BLOB_BYTES_MAX:
        raise InvalidRequestError(
            f"{len(packed)} bytes of group metadata, at most {limits.BLOB_BYTES_MAX} travel"
        )
    return packed


def _unpack(data: bytes, count: int) -> Sequence[Any]:
    try:
        fields = msgpack.unpackb(data, max_map_len=0, max_ext_len=0)
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise InvalidRequestError(f"group metadata is not msgpack: {error}") from None
    if not isinstance(fields, list) or len(fields) < count or type(fields[0]) is not int:
        raise InvalidRequestError("group metadata is not of the consumer protocol")
    return fields


def _by_topic(partitions: Iterable[TopicPartition]) -> list[Any]:
    """Return [topic, [partitions], topic, [partitions], ...], in order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return [item for pair in grouped.items() for item in pair]


def _partitions(grouped: Any) -> tuple[TopicPartition, ...]:
    if not isinstance(grouped, list) or len(grouped) % 2:
        raise InvalidRequestError("partitions are not given by topic")
    found = []
    for topic, numbers in zip(grouped[::2], grouped[1::2], strict=True):
        if not isinstance(topic, str) or not isinstance(numbers, list):
            raise InvalidRequestError("partitions are not given by topic")
        for number in numbers:
            if type(number) is not int or number < 0:
                raise InvalidRequestError(f"{number!r:.32} is not a partition")
            found.append(TopicPartition(topic, number))
    return tuple(found)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
