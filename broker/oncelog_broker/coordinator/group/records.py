"""``__consumer_offsets`` holds four kinds of facts, as msgpack arrays. Pure.

========  =================================  =====================================================
fact      key                                value
========  =================================  =====================================================
offset    [1, group, topic, partition]       [0, offset, leader_epoch, metadata, commit_timestamp,
                                             topic_id]
group     [2, group]                         [0, generation, protocol_type, protocol_name, leader,
                                             state_timestamp, members]; a member is [member_id,
                                             group_instance_id, client_id, client_host,
                                             session_timeout_ms, rebalance_timeout_ms,
                                             subscription, assignment]
pending   [3, group, topic, partition,       [0, producer_epoch, offset, leader_epoch, metadata,
          producer_id]                       timestamp, topic_id]
departed  [4, group, member_id]              [0, generation]: the member has gone from this one,
                                             which means nothing if another is saved
========  =================================  =====================================================

A value begins with its version; a reader takes newer ones and ignores what it does not know. No
value: the fact is taken back. A topic id is missing in what older releases wrote: then it is "". A
key of an unknown type is of a newer release, and is left alone. Timestamps are wall-clock
milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern
from typing import Any, NamedTuple

import msgpack

from oncelog_broker.coordinator.result import CoordinatorRecord, RecordFormatError
from oncelog_protocol.types import TopicPartition

OFFSET_KEY = 1
GROUP_KEY = 2
PENDING_KEY = 3
DEPARTED_KEY = 4
VALUE_VERSION = 0
NUMBERED_VERSION = 1
"""A pending offset has this version when its transaction ends by number."""

_OFFSET_FIELDS = 6
_PENDING_FIELDS = 7
_GROUP_FIELDS = 7
_MEMBER_FIELDS = 8


class OffsetRecord(NamedTuple):
    """It tells how far a group has come in one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    topic_id: str = ""
    """It tells which topic of that name is meant; "" if not known."""


class PendingOffset(NamedTuple):
    """It is the committed offset of a group after the transaction of a producer, if it commits."""

    producer_epoch: int
    offset: int
    leader_epoch: int
    metadata: str
    timestamp_ms: int
    topic_id: str = ""
    number: int = 0
    """The transaction has this number under its epoch, if it ends by number."""


class SavedMember(NamedTuple):
    """It is one member of a saved generation. ``subscription`` is what it offered for the protocol
    that was chosen."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class SavedGroup:
    """It is a generation that is durable: who is in it and who got what. Without members it has
    been empty since ``state_timestamp_ms``."""

    generation: int
    protocol_type: str
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[SavedMember, ...]


class OffsetFact(NamedTuple):
    """It is a decoded record of an offset; ``committed`` None takes it back."""

    group: str
    topic_partition: TopicPartition
    committed: OffsetRecord | None


class GroupFact(NamedTuple):
    """It is a decoded record of a generation; ``saved`` None takes it back."""

    group: str
    saved: SavedGroup | None


class PendingFact(NamedTuple):
    """It is a decoded record of a pending offset; ``pending`` None takes it back: the transaction
    has ended."""

    group: str
    topic_partition: TopicPartition
    producer_id: int
    pending: PendingOffset | None


class DepartedFact(NamedTuple):
    """It is a decoded record of a departure; ``generation`` None takes it back."""

    group: str
    member_id: str
    generation: int | None


_pack = msgpack.Packer().pack
_unpack = msgpack.unpackb


def offset_record(
    group: str, topic_partition: TopicPartition, committed: OffsetRecord | None
) -> CoordinatorRecord:
    """Return the record of one offset, or of its removal."""
    key = _pack([OFFSET_KEY, group, topic_partition.topic, topic_partition.partition])
    value = None if committed is None else _pack([VALUE_VERSION, *committed])
    return CoordinatorRecord(key, value)


def group_record(group: str, saved: SavedGroup | None) -> CoordinatorRecord:
    """Return the record of a generation, or of the end of the group."""
    key = _pack([GROUP_KEY, group])
    if saved is None:
        return CoordinatorRecord(key, None)
    value = _pack(
        [
            VALUE_VERSION,
            saved.generation,
            saved.protocol_type,
            saved.protocol_name,
            saved.leader,
            saved.state_timestamp_ms,
            [list(member) for member in saved.members],
        ]
    )
    return CoordinatorRecord(key, value)


def pending_record(
    group: str,
    topic_partition: TopicPartition,
    producer_id: int,
    pending: PendingOffset | None,
) -> CoordinatorRecord:
    """Return the record of one offset in an open transaction, or of its end."""
    topic, partition = topic_partition
    key = _pack([PENDING_KEY, group, topic, partition, producer_id])
    value = None
    if pending is not None:
        if pending.number:
            value = _pack([NUMBERED_VERSION, *pending])
        else:
            value = _pack([VALUE_VERSION, *pending[:-1]])
    return CoordinatorRecord(key, value)


def departed_record(group: str, member_id: str, generation: int | None) -> CoordinatorRecord:
    """Return the record of a member that has gone from a saved generation; None takes it back."""
    key = _pack([DEPARTED_KEY, group, member_id])
    value = None if generation is None else _pack([VALUE_VERSION, generation])
    return CoordinatorRecord(key, value)


def decode_record(
    record: CoordinatorRecord,
) -> OffsetFact | GroupFact | PendingFact | DepartedFact | None:
    """Decode one record; return None for a key of a type that this release does not know.

    :raises RecordFormatError: the bytes are no such record.
    """
    # A coordinator that loads does this a million times: offsets come first, and nothing is called
    # that need not be.
    try:
        key = _unpack(record.key)
        kind = key[0]
        if kind == OFFSET_KEY:
            _, group, topic, partition = key
            if type(group) is not str or type(topic) is not str or type(partition) is not int:
                raise RecordFormatError("an offset is of a group, a topic and a partition")
            value = None if record.value is None else _offset_value(record.value)
            return OffsetFact(group, TopicPartition(topic, partition), value)
        if kind == GROUP_KEY:
            _, group = key
            if type(group) is not str:
                raise RecordFormatError("a group has a name")
            return GroupFact(group, None if record.value is None else _group_value(record.value))
        if kind == PENDING_KEY:
            return _pending_fact(key, record.value)
        if kind == DEPARTED_KEY:
            return _departed_fact(key, record.value)
        if type(kind) is not int:
            raise RecordFormatError("a key begins with a number")
        return None
    except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
        raise RecordFormatError(f"record of key {record.key[:64]!r}: {error}") from None


def _offset_value(value: bytes) -> OffsetRecord:
    fields = _unpack(value)[:_OFFSET_FIELDS]
    if len(fields) < _OFFSET_FIELDS:
        fields.append("")  # an older release wrote it
    _, offset, leader_epoch, metadata, timestamp, topic_id = fields
    if (
        type(offset) is not int
        or type(leader_epoch) is not int
        or type(metadata) is not str
        or type(timestamp) is not int
        or type(topic_id) is not str
    ):
        raise RecordFormatError("an offset, a leader epoch, a text, a date and a topic id")
    return OffsetRecord(offset, leader_epoch, metadata, timestamp, intern(topic_id))


def _pending_fact(key: Any, value: bytes | None) -> PendingFact:
    _, group, topic, partition, producer_id = key
    _check_types((group, topic, partition, producer_id), (str, str, int, int))
    pending = None
    if value is not None:
        version, *fields = _unpack(value)
        count = _PENDING_FIELDS if version < NUMBERED_VERSION else _PENDING_FIELDS + 1
        pending = PendingOffset(*fields[: count - 1])
        _check_types(tuple(pending), (int, int, int, str, int, str, int))
    return PendingFact(group, TopicPartition(topic, partition), producer_id, pending)


def _departed_fact(key: Any, value: bytes | None) -> DepartedFact:
    _, group, member_id = key
    _check_types((group, member_id), (str, str))
    generation = None
    if value is not None:
        generation = _unpack(value)[1]
        _check_types((generation,), (int,))
    return DepartedFact(group, member_id, generation)


def _group_value(value: bytes) -> SavedGroup:
    fields = _unpack(value)[:_GROUP_FIELDS]
    _, generation, protocol_type, protocol_name, leader, timestamp, members = fields
    _check_types((generation, protocol_type, timestamp, members), (int, str, int, list))
    if not (_is_name(protocol_name) and _is_name(leader)):
        raise RecordFormatError("protocol name and leader are names, or nothing")
    return SavedGroup(
        generation,
        protocol_type,
        protocol_name,
        leader,
        timestamp,
        tuple(_member(member) for member in members),
    )


def _member(fields: Any) -> SavedMember:
    member = SavedMember(*fields[:_MEMBER_FIELDS])
    _check_types((member.member_id, *member[2:]), (str, str, str, int, int, bytes, bytes))
    if not _is_name(member.group_instance_id):
        raise RecordFormatError("an instance id is a name, or nothing")
    return member


def _is_name(value: Any) -> bool:
    return value is None or type(value) is str


def _check_types(values: tuple[Any, ...], types: tuple[type, ...]) -> None:
    if (*map(type, values),) != types:
        raise RecordFormatError(f"fields of types {[type(value).__name__ for value in values]}")
