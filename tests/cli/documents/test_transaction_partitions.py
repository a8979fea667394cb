"""Transactions stand in their partitions as leaders say it; what nobody says is not known."""

from __future__ import annotations

from typing import Any

import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog_cli.documents.held_back import HeldBackRecords, KnownGroups
from oncelog_cli.documents.marker_offsets import EndedProducer
from oncelog_cli.documents.transaction_partitions import (
    ended_in,
    in_partitions,
    marker_epoch,
    partitions_of,
    with_partitions,
    written_by,
)
from oncelog_cli.documents.transactions import described_transactions
from oncelog_protocol.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import OffsetCommitPartition
from oncelog_protocol.messages.transaction_admin import DescribedProducer, DescribedTransaction
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.records.builder import encode_batch
from support.admin_cluster import AdminCluster, KnownGroup, KnownTransaction
from support.fake_cluster import Action

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
GROUPS = TopicPartition("__consumer_offsets", 3)


def described(state: str, *partitions: TopicPartition, epoch: int = 5) -> dict[str, Any]:
    return {
        "state": state,
        "shared": False,
        "producer_id": 7,
        "producer_epoch": epoch,
        "partitions": [tp._asdict() for tp in partitions],
        "writers": [],
    }


def begun(
    tp: TopicPartition, producer_id: int, start: int | None, epoch: int = 4
) -> dict[str, Any]:
    return {
        **tp._asdict(),
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "last_timestamp_ms": 1_000,
        "txn_start_offset": start,
    }


def test_a_transaction_is_open_where_its_producer_has_begun() -> None:
    row = described("Ongoing", T0, T1, T2)
    producers = [begun(T0, 7, 50), begun(T1, 7, None), begun(T0, 8, 3)]
    held = {T0: HeldBackRecords(50, 54)}
    rows = in_partitions(row, [T0, T1], producers, held, {T0: ["billing"]}, {})
    assert [(each["open"], each["start_offset"], each["holds_back"]) for each in rows] == [
        (True, 50, 4),
        (False, None, None),
        (None, None, None),
    ]
    assert [each["waiting_groups"] for each in rows] == [["billing"], [], []]
    assert {each["marked"] for each in rows} == {None}, "it has no end yet"


def test_a_marker_is_written_when_the_leader_knows_its_epoch() -> None:
    row = described("PrepareCommit", T0, T1, T2, GROUPS)
    producers = [begun(T0, 7, None, 5), begun(T1, 7, None), begun(T2, 7, 50)]
    assert ended_in(row, producers) == [EndedProducer(T0, 7, 5, 1_000)]
    everywhere = [T0, T1, T2, GROUPS]
    rows = in_partitions(row, everywhere, producers, {}, {}, {(T0, 7): 90})
    found = {each["topic"] + str(each["partition"]): each["marked"] for each in rows}
    assert found == {"t0": True, "t1": False, "t2": False, "__consumer_offsets3": True}
    assert {each["marker_offset"] for each in rows} == {90, None}
    rows = in_partitions(row, [T1], producers, {}, {}, {})
    assert [each["marked"] for each in rows].count(None) == 3, "their leaders did not answer"
    pending = [begun(GROUPS, 7, 0)]
    (waits,) = in_partitions(described("PrepareAbort", GROUPS), [GROUPS], pending, {}, {}, {})
    assert waits["marked"] is False


def test_markers_of_a_producer_at_its_last_epoch_are_not_known() -> None:
    row = described("PrepareCommit", T0, epoch=0)
    assert marker_epoch(row) is None
    (only,) = in_partitions(row, [T0], [begun(T0, 7, None, 0)], {}, {}, {})
    assert only["marked"] is None


def test_each_writer_of_a_shared_transaction_has_its_partitions() -> None:
    row = {**described("PrepareCommit", T1), "shared": True, "producer_epoch": None}
    row["writers"] = [
        {"writer": "part-0", "producer_id": 20, "partitions": [T0._asdict()]},
        {"writer": "part-1", "producer_id": 21, "partitions": [T0._asdict()]},
    ]
    producers = [begun(T0, 20, 5, 0), begun(T0, 21, None, 1)]
    rows = in_partitions(row, [T0], producers, {}, {}, {(T0, 21): 9})
    assert [(each["writer"], each["open"], each["marked"]) for each in rows] == [
        ("part-0", True, False),
        ("part-1", False, True),
    ]
    assert [each["marker_offset"] for each in rows] == [None, 9]
    assert partitions_of(row) == [T0, T1]
    assert written_by(described("Ongoing", T1)) == [(T1, None, 7)]


# ------------------------------------------------------------------------------ leaders


@pytest_asyncio.fixture
async def cluster(fake: AdminCluster) -> AdminCluster:
    """The id "pay" holds back two records of t-0, for which the group "billing" waits."""
    log, other = fake.create_topic("t", 2)
    log.leader, other.leader = 1, 2
    log.append(encode_batch([b"x"] * 5, timestamps=1000))
    log.open_txns[7] = 3
    written = [TxnTopic("t", [0, 1])]
    pay = DescribedTransaction(0, "pay", "Ongoing", 7, 4, 60_000, 1_000, written)
    fake.known_transactions["pay"] = KnownTransaction(1, pay)
    done = DescribedTransaction(0, "done", "CompleteCommit", 8, 1, 60_000)
    fake.known_transactions["done"] = KnownTransaction(2, done)
    fake.producers[T0] = [DescribedProducer(7, 4, 3, 1_000, 2, 3)]
    billing = fake.known_groups["billing"] = KnownGroup(1)
    billing.offsets[T0] = OffsetCommitPartition(0, 3, -1, "")
    return fake


async def test_the_document_says_who_waits(cluster: AdminCluster, asker: Admin) -> None:
    answer = await described_transactions(asker, ["pay"])
    whole = (await with_partitions(asker, answer)).document
    (pay,) = whole["transactions"]
    first, second = pay["in_partitions"]
    assert (first["open"], first["start_offset"], first["holds_back"]) == (True, 3, 2)
    assert (first["last_stable_offset"], first["high_watermark"]) == (3, 5)
    assert first["waiting_groups"] == ["billing"]
    assert (second["open"], second["holds_back"], second["waiting_groups"]) == (False, 0, [])
    assert whole["groups_not_asked"] == 0
    assert {**pay, "in_partitions": None} == {
        **answer.document["transactions"][0],
        "in_partitions": None,
    }


async def test_groups_that_somebody_knows_are_not_asked(
    cluster: AdminCluster, asker: Admin
) -> None:
    answer = await described_transactions(asker, ["pay"])
    before = cluster.count(ApiKey.DESCRIBE_GROUPS)
    known = KnownGroups([{"group": "mail", "offsets": [{**T0._asdict(), "offset": 4}]}], 3)
    whole = (await with_partitions(asker, answer, known)).document
    assert whole["transactions"][0]["in_partitions"][0]["waiting_groups"] == ["mail"]
    assert whole["groups_not_asked"] == 3
    assert cluster.count(ApiKey.DESCRIBE_GROUPS) == before


async def test_nobody_is_asked_about_what_is_over(cluster: AdminCluster, asker: Admin) -> None:
    answer = await described_transactions(asker, ["done"])
    before = cluster.count(ApiKey.DESCRIBE_PRODUCERS)
    whole = await with_partitions(asker, answer)
    assert whole.document["transactions"][0]["in_partitions"] == []
    assert cluster.count(ApiKey.DESCRIBE_PRODUCERS) == before


async def test_what_nobody_says_is_not_known(cluster: AdminCluster, asker: Admin) -> None:
    answer = await described_transactions(asker, ["pay"])
    for api, times in ((ApiKey.DESCRIBE_PRODUCERS, 1), (ApiKey.LIST_OFFSETS, 2)):
        refused = TopicAuthorizationFailedError
        cluster.rule(api, Action.ERROR, error=refused, times=times, broker=2)
    cluster.rule(ApiKey.DESCRIBE_GROUPS, Action.ERROR, error=GroupAuthorizationFailedError)
    whole = await with_partitions(asker, answer)
    first, second = whole.document["transactions"][0]["in_partitions"]
    assert (first["open"], first["holds_back"], first["waiting_groups"]) == (True, 2, [])
    assert (second["open"], second["holds_back"]) == (None, None)
    assert [each.item for each in whole.failures] == ["t-1", "billing"]
    assert whole.document["groups_not_asked"] == 1
