"""Members of a group that are clients of Kafka tell each other this, in Kafka's bytes. Pure.

It is Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment: a version of two bytes,
then arrays and texts behind their lengths. A newer version begins as the newest that is known here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.types import TopicPartition

OWNED_SINCE: Final = 1
GENERATION_SINCE: Final = 2
RACK_SINCE: Final = 3
"""A subscription has these fields from this version on."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    """It says what a member wants, and what it has.

    ``owned`` are the partitions that it reads at this moment, as of ``generation`` (-1: none): the
    assigning member leaves them with it if it can, and does not give them to another before it has
    given them up (KIP-429). A claim of an older generation than another's loses (KIP-792).
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    rack: str | None = None
    user_data: bytes = b""


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    """It says what a member gets."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes = b""


def is_of_kafka(data: bytes) -> bool:
    """Return whether a member wrote this in Kafka's words, and not in ours: they begin with a
    version of two bytes, and ours with an array."""
    return data[:1] == b"\0"


class _Reader:
    """It reads from the front of some bytes; what is claimed and not there is refused."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def text(self) -> str | None:
        """Return a text; None where there is none."""
        length = self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise InvalidRequestError("a name is not UTF-8") from None

    def name(self) -> str:
        text = self.text()
        if text is None:
            raise InvalidRequestError("a topic has no name")
        return text

    def blob(self) -> bytes:
        """Return bytes; none where there are none."""
        length = self.int32()
        return self._take(length) if length >= 0 else b""

    def array(self, item: Callable[[], T]) -> list[T]:
        """Return as many items as are announced; each takes two bytes at least."""
        count = self.int32()
        if count * 2 > len(self._data) - self._at:
            raise InvalidRequestError(f"{count} items are not there")
        return [item() for _ in range(count)]

    def partitions(self) -> tuple[TopicPartition, ...]:
        def topic() -> list[TopicPartition]:
            name = self.name()
            return [TopicPartition(name, number) for number in self.array(self.int32)]

        return tuple(each for found in self.array(topic) for each in found)

    def _take(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if len(found) < length:
            raise InvalidRequestError("the bytes end before what they announce")
        self._at += length
        return found


def decode_kafka_subscription(data: bytes) -> ConsumerSubscription:
    """Return what a client of Kafka wants.

    :raises InvalidRequestError: the bytes are not a subscription.
    """
    reader = _Reader(data)
    version = reader.int16()
    topics = tuple(reader.array(reader.name))
    user_data = reader.blob()
    owned = reader.partitions() if version >= OWNED_SINCE else ()
    generation = reader.int32() if version >= GENERATION_SINCE else -1
    rack = reader.text() if version >= RACK_SINCE else None
    return ConsumerSubscription(topics, owned, generation, rack, user_data)


def decode_kafka_assignment(data: bytes) -> ConsumerAssignment:
    """Return what a client of Kafka gets.

    :raises InvalidRequestError: the bytes are not an assignment.
    """
    reader = _Reader(data)
    reader.int16()
    partitions = reader.partitions()
    return ConsumerAssignment(partitions, reader.blob())


def encode_kafka_subscription(subscription: ConsumerSubscription) -> bytes:
    """Return a subscription in version 1, which every client of Kafka reads."""
    topics = [_text(topic) for topic in subscription.topics]
    return b"".join(
        (
            struct.pack(">hi", OWNED_SINCE, len(topics)),
            *topics,
            _blob(subscription.user_data),
            _partitions(subscription.owned),
        )
    )


def encode_kafka_assignment(assignment: ConsumerAssignment) -> bytes:
    """Return an assignment in version 0, which every client of Kafka reads."""
    return bytes(2) + _partitions(assignment.partitions) + _blob(assignment.user_data)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    pieces = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        pieces += [_text(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(pieces)
