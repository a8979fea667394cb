"""Records of the cluster's own topics are shown as JSON: what coordinators have written down. Pure.

Both topics hold msgpack arrays whose first element says what they are; the brokers' ``coordinator``
rooms describe the formats. What is not understood, as it may be of a newer release, stays as it is.
A record without a value takes its fact back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from oncelog import Record

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


def _fields(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_MEMBER = _fields(
    "member_id group_instance_id client_id client_host session_timeout_ms "
    "rebalance_timeout_ms subscription assignment"
)
_GROUP_KEYS: Mapping[int, tuple[str, tuple[str, ...]]] = {
    1: ("offset", ("group", "topic", "partition")),
    2: ("group", ("group",)),
    3: ("pending_offset", ("group", "topic", "partition", "producer_id")),
    4: ("departed_member", ("group", "member_id")),
}
_GROUP_VALUES: Mapping[int, tuple[str, ...]] = {
    1: _fields("version offset leader_epoch metadata commit_timestamp"),
    2: _fields("version generation_id protocol_type protocol_name leader state_timestamp members"),
    3: _fields("version producer_epoch offset leader_epoch metadata timestamp"),
    4: _fields("version generation_id"),
}
_TXN_KEYS: Mapping[int, tuple[str, tuple[str, ...]]] = {
    1: ("transactional_id", ("transactional_id",)),
    2: ("writer", ("transactional_id", "producer_id")),
    3: ("ordinals", ()),
}
_ORDINARY = _fields(
    "version shared state producer_id producer_epoch timeout_ms start_ms changed_ms marker_id "
    "marker_epoch ending init_id init_epoch topics"
)
_SHARED = _fields(
    "version shared state ordinal tag timeout_ms start_ms changed_ms last_committed_tag "
    "last_committed_ordinal ending winners"
)
_TXN_VALUES: Mapping[int, tuple[str, ...]] = {
    2: _fields("version ordinal writer topics"),
    3: _fields("version last_ordinal"),
}


def decoded(record: Record) -> Record:
    """Return the record with key and value as JSON, if it is one of a coordinator."""
    if record.topic not in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) or record.key is None:
        return record
    fact = fact_of(record.topic, record.key, record.value)
    if fact is None:
        return record
    key, value = fact
    return record._replace(key=_json(key), value=None if value is None else _json(value))


Fact = tuple[dict[str, Any], dict[str, Any] | None]
"""The fields of a record's key, and those of its value; None: the fact is taken back."""


def fact_of(topic: str, key: bytes, value: bytes | None) -> Fact | None:
    """Return key and value of a coordinator's record as fields; None: it is not understood.

    :param topic: one of a coordinator.
    """
    try:
        return _decode(topic, key, value)
    except (ValueError, TypeError, LookupError, msgpack.UnpackException):
        return None


def _decode(
    topic: str, key: bytes, value: bytes | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Decode key and value of a coordinator's record.

    :raises Exception: one of those that ``fact_of`` knows: it cannot be read.
    """
    kind, *names = msgpack.unpackb(key)
    known = _GROUP_KEYS if topic == OFFSETS_TOPIC else _TXN_KEYS
    word, fields = known[kind]
    named = {"type": word, **_named(fields, names)}
    if value is None:
        return named, None
    parts = msgpack.unpackb(value, strict_map_key=False)
    if topic == OFFSETS_TOPIC:
        columns = _GROUP_VALUES[kind]
    elif kind == 1:
        columns = _SHARED if parts[1] else _ORDINARY
    else:
        columns = _TXN_VALUES[kind]
    document = _named(columns, parts)
    if "members" in document:
        document["members"] = [_named(_MEMBER, member) for member in document["members"]]
    if "shared" in document:
        document["shared"] = bool(document["shared"])
    return named, document


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Fields that are behind those that are known here are left out.

    :raises ValueError: there are fewer.
    """
    if len(values) < len(names):
        raise ValueError("fields are missing")
    return dict(zip(names, values, strict=False))


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=_bytes).encode()


def _bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    raise TypeError(f"{type(value).__name__} in a record of a coordinator")
