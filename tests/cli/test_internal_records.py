"""The coordinators' own code makes the records that are shown as JSON here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog import Record
from oncelog_broker.coordinator.group import records as groups
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.coordinator.transaction import records as transactions
from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_cli.internal_records import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, decoded
from oncelog_protocol.types import TopicPartition


def shown(topic: str, record: CoordinatorRecord) -> tuple[Any, Any]:
    found = decoded(Record(topic, 0, 1, 1000, record.key, record.value))
    assert found.key is not None
    return json.loads(found.key), None if found.value is None else json.loads(found.value)


def test_a_committed_offset() -> None:
    committed = groups.OffsetRecord(5, 2, "note", 1000)
    key, value = shown(OFFSETS_TOPIC, groups.offset_record("g", TopicPartition("t", 3), committed))
    assert key == {"type": "offset", "group": "g", "topic": "t", "partition": 3}
    assert value == {
        "version": 0,
        "offset": 5,
        "leader_epoch": 2,
        "metadata": "note",
        "commit_timestamp": 1000,
    }


def test_a_fact_that_is_taken_back() -> None:
    key, value = shown(OFFSETS_TOPIC, groups.offset_record("g", TopicPartition("t", 3), None))
    assert (key["group"], value) == ("g", None)


def test_transactional_ids_and_writers() -> None:
    partitions = (TopicPartition("t", 0), TopicPartition("t", 1))
    ordinary = transactions.SavedTransaction(
        TxnState.ONGOING, 7, 4, 60_000, 1000, partitions=partitions
    )
    key, value = shown(TRANSACTIONS_TOPIC, transactions.id_record("pay", ordinary))
    assert key == {"type": "transactional_id", "transactional_id": "pay"}
    assert (value["shared"], value["producer_id"], value["start_ms"]) == (False, 7, 1000)
    assert value["topics"] == [["t", [0, 1]]]
    shared = transactions.SavedShared(TxnState.ONGOING, 5, 12, 9000, winners=(20, 21))
    key, value = shown(TRANSACTIONS_TOPIC, transactions.id_record("spark", shared))
    assert (value["shared"], value["tag"], value["winners"]) == (True, 12, [20, 21])
    writer = transactions.SavedWriter(5, "task-0", partitions)
    key, value = shown(TRANSACTIONS_TOPIC, transactions.writer_record("spark", 20, writer))
    assert key == {"type": "writer", "transactional_id": "spark", "producer_id": 20}
    assert (value["writer"], value["topics"]) == ("task-0", [["t", [0, 1]]])


def test_a_generation_with_its_members() -> None:
    member = groups.SavedMember("m1", None, "app", "10.0.0.1", 6000, 9000, b"abc", b"\xff")
    saved = groups.SavedGroup(3, "consumer", "range", "m1", 1000, (member,))
    key, value = shown(OFFSETS_TOPIC, groups.group_record("g", saved))
    assert key == {"type": "group", "group": "g"}
    assert value["generation_id"] == 3
    (told,) = value["members"]
    assert (told["member_id"], told["client_host"]) == ("m1", "10.0.0.1")
    assert told["assignment"] == "(1 bytes)"
    pending = groups.PendingOffset(2, 8, -1, "", 1000)
    record = groups.pending_record("g", TopicPartition("t", 3), 77, pending)
    key, value = shown(OFFSETS_TOPIC, record)
    assert (key["producer_id"], value["offset"]) == (77, 8)


def test_a_member_that_has_gone() -> None:
    key, value = shown(OFFSETS_TOPIC, groups.departed_record("g", "m1", 3))
    assert key == {"type": "departed_member", "group": "g", "member_id": "m1"}
    assert value == {"version": 0, "generation_id": 3}


def test_ordinals() -> None:
    key, value = shown(TRANSACTIONS_TOPIC, transactions.ordinals_record(7))
    assert key == {"type": "ordinals"}
    assert value == {"version": 0, "last_ordinal": 7}


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("t", b"\x92\x01\xa1g", b"\x90"),
        (OFFSETS_TOPIC, b"not msgpack", b""),
        (OFFSETS_TOPIC, b"\x92\x09\xa1g", b"\x90"),
        (OFFSETS_TOPIC, b"\x92\x01\xa1g", b"\x90"),
        (OFFSETS_TOPIC, b"", b""),
        (TRANSACTIONS_TOPIC, b"\x92\x01\xa1g", b"\x91\x00"),
    ],
)
def test_what_is_not_understood_stays(topic: str, key: bytes, value: bytes) -> None:
    record = Record(topic, 0, 1, 1000, key, value)
    assert decoded(record) == record
    assert decoded(record._replace(key=None)) == record._replace(key=None)
