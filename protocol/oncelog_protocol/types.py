"""Every room shares these small values: topic partitions, sentinels and acks."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """It is one partition of one topic; it sorts by name, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Acks(IntEnum):
    """It says how many replicas must hold a batch before Produce is answered."""

    NONE = 0
    LEADER = 1
    ALL = -1


class IsolationLevel(IntEnum):
    """It says what a fetch may see: up to the high watermark, or up to the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


ISOLATION_LEVELS = frozenset(IsolationLevel)
"""Each fetch looks here: to go through the enumeration takes half a microsecond, this 0.02."""


class FetchLane(IntEnum):
    """It is the connection over which a follower fetches a partition from its leader: the main one,
    or that of partitions which are far behind."""

    MAIN = 0
    CATCH_UP = 1


FETCH_LANES = frozenset(FetchLane)


NO_LEADER = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TXN_NUMBER = -1
"""A marker has no number: its epoch is above that of the transaction that it ends."""
NO_BROKER = -1
CONSUMER_REPLICA_ID = -1
"""Replica id in a Fetch that comes from a consumer."""

MAX_TIMESTAMP = -3
EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
"""Sentinels of ListOffsets, as in Kafka."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


def address_text(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 address in brackets (RFC 3986, section 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


Buffer = bytes | bytearray | memoryview
"""Bytes of any kind; a memoryview is always one of single bytes, contiguous."""
