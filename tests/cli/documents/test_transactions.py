"""Transactions are described, ordinary and shared ones; those that hang are ended."""

from __future__ import annotations

import pytest
import pytest_asyncio

from oncelog import Admin
from oncelog.errors import OncelogError
from oncelog_cli.documents.transactions import (
    aborted_transaction,
    described_shared,
    described_transactions,
    doomed_producers,
    fenced_producers,
    hanging_transactions,
    listed_shared,
    listed_transactions,
)
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen
from oncelog_protocol.errors import CoordinatorLoadInProgressError
from oncelog_protocol.messages.transaction_admin import (
    DescribedProducer,
    DescribedTransaction,
    DescribedWriter,
)
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.types import TopicPartition
from support.admin_cluster import AdminCluster, KnownTransaction

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LONG_AGO_MS = 1_000_000_000_000
QUARTER_MS = 900_000


@pytest_asyncio.fixture
async def cluster(fake: AdminCluster) -> AdminCluster:
    """The id "pay" is writing to t-0 and t-1, and "spark" is shared. In t-0 producer 66 has a
    transaction that nobody knows."""
    fake.create_topic("t", 2)
    written = [TxnTopic("t", [1, 0])]
    pay = DescribedTransaction(0, "pay", "Ongoing", 7, 4, 60_000, LONG_AGO_MS, written)
    spark = DescribedTransaction(0, "spark", "Ongoing", -1, -1, 9_000, LONG_AGO_MS)
    spark.shared, spark.ordinal, spark.tag, spark.last_committed_tag = True, 5, 12, 11
    spark.writers = [DescribedWriter("task-0", 20, [TxnTopic("t", [0])])]
    fake.known_transactions.update(pay=KnownTransaction(1, pay), spark=KnownTransaction(2, spark))
    for tp, ids in ((T0, (66, 7, 20)), (T1, (7,))):
        fake.producers[tp] = [DescribedProducer(n, 4, 3, LONG_AGO_MS, 2, 50) for n in ids]
    return fake


async def test_lists(cluster: AdminCluster, asker: Admin) -> None:
    answer = await listed_transactions(asker)
    rows = answer.document["transactions"]
    assert [(row["transactional_id"], row["kind"], row["producer_id"]) for row in rows] == [
        ("pay", "ordinary", 7),
        ("spark", "shared", None),
    ]
    answer = await listed_transactions(asker, ["p.*"], regex=True, states=["Empty"])
    assert answer.document["transactions"] == []
    answer = await listed_shared(asker)
    (shared,) = answer.document["transactions"]
    assert (shared["tag"], shared["writers"][0]["partition_names"]) == (12, "t:0")
    assert (await listed_shared(asker, ["pay"])).document["transactions"] == []


async def test_descriptions_and_ids_of_another_kind(cluster: AdminCluster, asker: Admin) -> None:
    answer = await described_transactions(asker, ["pay", "none"])
    (pay,) = answer.document["transactions"]
    assert (pay["partition_names"], pay["start_ms"], pay["shared"]) == ("t:0,1", LONG_AGO_MS, False)
    assert [each.item for each in answer.failures] == ["none"]

    answer = await described_shared(asker, ["pay", "spark"])
    assert [row["transactional_id"] for row in answer.document["transactions"]] == ["spark"]
    assert [(each.item, each.message) for each in answer.failures] == [
        ("pay", "it is no id of shared transactions")
    ]
    answer = await described_shared(asker, [".*"], regex=True)
    assert not answer.failures, "nobody has named pay"
    with pytest.raises(CommandError, match="no shared transaction matches pa."):
        await described_shared(asker, ["pa."], regex=True)


async def test_one_that_hangs_is_ended(cluster: AdminCluster, asker: Admin) -> None:
    answer = await hanging_transactions(asker, max_timeout_ms=QUARTER_MS)
    (row,) = answer.document["transactions"]
    assert (row["topic"], row["partition"], row["producer_id"], row["start_offset"]) == (
        *("t", 0, 66, 50),
    )
    elsewhere = await hanging_transactions(
        asker, Chosen((), (("t", 1),)), max_timeout_ms=QUARTER_MS
    )
    assert elsewhere.document["transactions"] == []

    plan = await aborted_transaction(asker, T0, producer_id=66, dry_run=True)
    assert (plan["dry_run"], plan["aborted"]["transactional_id"]) == (True, None)
    assert (await aborted_transaction(asker, T0, start_offset=50, producer_id=66)) == {
        **plan,
        "dry_run": False,
    }
    answer = await hanging_transactions(asker, max_timeout_ms=QUARTER_MS)
    assert answer.document["transactions"] == []
    with pytest.raises(OncelogError, match="no transaction of producer 66 is open"):
        await aborted_transaction(asker, T0, producer_id=66)


@pytest.mark.slow  # a coordinator that loads is asked again for some seconds
async def test_nothing_hangs_while_a_coordinator_is_silent(
    cluster: AdminCluster, asker: Admin
) -> None:
    cluster.loading[2] = CoordinatorLoadInProgressError.code
    answer = await hanging_transactions(asker, max_timeout_ms=QUARTER_MS)
    assert answer.document["transactions"] == []
    broker, more = answer.failures
    assert (broker.item, more.item) == ("broker 2", "")
    assert more.message.endswith("may hang: not all coordinators could be asked")


async def test_an_id_that_is_not_known_is_not_fenced(cluster: AdminCluster, asker: Admin) -> None:
    plan = await doomed_producers(asker, ["pay", "none"])
    assert plan.document["transactions"] == [{"transactional_id": "pay", "fenced": False}]
    assert [each.item for each in plan.failures] == ["none"]
    assert cluster.known_transactions["pay"].fenced_count == 0
    answer = await fenced_producers(asker, ["pay", "spark"])
    pay, spark = answer.document["transactions"]
    assert (pay["fenced"], pay["producer_id"], pay["producer_epoch"]) == (True, 7, 5)
    assert (spark["fenced"], spark["error"]) == (False, "INVALID_TXN_STATE")
    assert [each.item for each in answer.failures] == ["spark"]
