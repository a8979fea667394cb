"""``oncelog transactions`` shows and ends transactions of scripted brokers, then of real ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from oncelog import Producer
from oncelog.errors import ProducerFencedError
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import OffsetCommitPartition
from oncelog_protocol.messages.transaction_admin import (
    DescribedProducer,
    DescribedTransaction,
    DescribedWriter,
)
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from support.admin_cluster import AdminCluster, KnownGroup, KnownTransaction
from support.cluster import Cluster
from support.fake_cluster import Action
from support.hand_producer import all_marked
from support.hanging import hang
from support.shell import Shown, oncelog

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LONG_AGO_MS = 1_000_000_000_000


def producer(pid: int, epoch: int = 4, start: int = 50) -> DescribedProducer:
    return DescribedProducer(pid, epoch, 3, LONG_AGO_MS, 2, start)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    """Topic t has two partitions. "pay" (broker 1) is writing to both, "done" (broker 2) is not;
    "spark" (broker 2) is shared. In t-0 producer 66 has a transaction that nobody knows."""
    async with AdminCluster(2) as cluster:
        cluster.create_topic("t", 2)
        put = cluster.known_transactions
        put["pay"] = KnownTransaction(
            1,
            DescribedTransaction(
                0, "pay", "Ongoing", 7, 4, 60_000, LONG_AGO_MS, [TxnTopic("t", [1, 0])]
            ),
        )
        put["done"] = KnownTransaction(
            2, DescribedTransaction(0, "done", "CompleteCommit", 8, 1, 60_000)
        )
        spark = DescribedTransaction(0, "spark", "Ongoing", -1, -1, 9_000, LONG_AGO_MS)
        spark.shared, spark.ordinal, spark.tag, spark.last_committed_tag = True, 5, 12, 11
        spark.writers = [
            DescribedWriter("task-0", 20, [TxnTopic("t", [0])]),
            DescribedWriter("task-1", 21, []),
        ]
        put["spark"] = KnownTransaction(2, spark)
        cluster.producers[T0] = [producer(66), producer(7), producer(20)]
        cluster.producers[T1] = [producer(7)]
        yield cluster


async def transactions(cluster: AdminCluster, *arguments: str) -> Shown:
    return await oncelog("transactions", *arguments, bootstrap=cluster.bootstrap)


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_list(cluster: AdminCluster) -> None:
    shown = await transactions(cluster, "list")
    assert (shown.code, shown.err) == (0, "")
    assert cells(shown.out) == [
        ["TRANSACTIONAL", "ID", "STATE", "PRODUCER", "KIND", "COORDINATOR"],
        ["done", "CompleteCommit", "8", "ordinary", "2"],
        ["pay", "Ongoing", "7", "ordinary", "1"],
        ["spark", "Ongoing", "-", "shared", "2"],
    ]
    shown = await transactions(cluster, "list", "-r", "p.*", "--json")
    assert [row["transactional_id"] for row in shown.document["transactions"]] == ["pay"]
    shown = await transactions(cluster, "list", "--state", "Ongoing", "--producer-id", "21")
    assert [row[0] for row in cells(shown.out)[1:]] == ["spark"]
    shown = await transactions(cluster, "list", "--older-than", "5m")
    assert shown.code == 0
    for wrong in (["--state", "Sleepy"], ["--older-than", "soon"], ["-r", "("]):
        shown = await transactions(cluster, "list", *wrong)
        assert (shown.code, shown.out) == (2, "")


@pytest.mark.slow
async def test_a_list_that_may_lack_some_says_so(cluster: AdminCluster) -> None:
    cluster.loading[2] = CoordinatorLoadInProgressError.code
    cluster.known_transactions.pop("spark")
    shown = await transactions(cluster, "list", "--json")
    assert shown.code == 1
    (error,) = shown.document["errors"]
    assert (error["item"], error["error"]) == ("broker 2", "COORDINATOR_LOAD_IN_PROGRESS")
    assert len(shown.document["transactions"]) == 2


async def test_describe(cluster: AdminCluster) -> None:
    shown = await transactions(cluster, "describe", "pay", "spark")
    assert (shown.code, shown.err) == (0, "")
    rows = cells(shown.out)
    assert rows[1] == [
        *("pay", "Ongoing", "7", "4", "2001-09-09T01:46:40.000Z", "60000", "t:0,1"),
    ]
    assert rows[4] == ["spark", "Ongoing", "5", "12", "11", "2", "2001-09-09T01:46:40.000Z", "9000"]
    assert rows[6:] == [
        ["spark:"],
        ["WRITER", "PRODUCER", "PARTITIONS"],
        ["task-0", "20", "t:0"],
        ["task-1", "21", "-"],
    ]
    shown = await transactions(cluster, "describe", "done", "none", "--json")
    assert shown.code == 1
    (done,) = shown.document["transactions"]
    assert (done["state"], done["start_ms"], done["partitions"]) == ("CompleteCommit", None, [])
    (error,) = shown.document["errors"]
    assert (error["item"], error["error"]) == ("none", "TRANSACTIONAL_ID_NOT_FOUND")
    shown = await transactions(cluster, "describe", "-r", "x.*")
    assert (shown.code, shown.err) == (1, "error: no transactional id matches x.*\n")


async def test_describe_in_partitions(cluster: AdminCluster) -> None:
    log = cluster.partition("t", 0)
    log.append(encode_batch([b"x"] * 5, timestamps=1000))
    log.open_txns[7] = 3
    for name, offset in (("billing", 3), ("audit", 2)):
        group = cluster.known_groups[name] = KnownGroup(1)
        group.offsets[T0] = OffsetCommitPartition(0, offset, -1, "")
    shown = await transactions(cluster, "describe", "pay", "--partitions")
    assert (shown.code, shown.err) == (0, "")
    assert cells(shown.out)[3:] == [
        ["pay", "in", "its", "partitions:"],
        [
            "TOPIC",
            "PARTITION",
            "PRODUCER",
            "OPEN",
            "BEGINS",
            "AT",
            "MARKED",
            "MARKER",
            "AT",
            "HOLDS",
            "BACK",
            "WAITING",
            "GROUPS",
        ],
        ["t", "0", "7", "yes", "50", "-", "-", "2", "billing"],
        ["t", "1", "7", "yes", "50", "-", "-", "0", "-"],
    ]
    cluster.rule(ApiKey.DESCRIBE_GROUPS, Action.ERROR, error=GroupAuthorizationFailedError)
    shown = await transactions(cluster, "describe", "pay", "--partitions")
    assert shown.code == 1
    assert "2 more groups may wait: they have not said how far they have come" in shown.err


async def test_find_hanging_and_abort(cluster: AdminCluster) -> None:
    shown = await transactions(cluster, "find-hanging")
    assert (shown.code, shown.err) == (0, "")
    assert cells(shown.out)[1:] == [
        ["t", "0", "50", "66", "4", "2001-09-09T01:46:40.000Z", "-"],
    ]
    shown = await transactions(cluster, "find-hanging", "-t", "t:1", "--json")
    assert shown.document["transactions"] == []
    shown = await transactions(cluster, "abort", "-t", "t", "-p", "0", "--start-offset", "50")
    assert (shown.code, cluster.count(ApiKey.ABORT_TRANSACTION)) == (2, 0)
    assert "--yes" in shown.err
    shown = await transactions(cluster, "abort", "-t", "t", "-p", "0", "--producer-id", "66", "-y")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == "aborted the transaction of producer 66, by a marker in this partition\n"
    shown = await transactions(cluster, "find-hanging", "--json")
    assert shown.document["transactions"] == []
    shown = await transactions(cluster, "abort", "-t", "t", "-p", "0", "--producer-id", "66", "-y")
    assert shown.code == 1
    assert "no transaction of producer 66 is open" in shown.err


async def test_abort_by_the_coordinator(cluster: AdminCluster) -> None:
    shown = await transactions(
        cluster, "abort", "-t", "t", "-p", "1", "--start-offset", "50", "--yes", "--json"
    )
    assert shown.code == 0
    assert shown.document["aborted"] == {
        "topic": "t",
        "partition": 1,
        "producer_id": 7,
        "producer_epoch": 4,
        "transactional_id": "pay",
    }
    assert cluster.known_transactions["pay"].described.state == "CompleteAbort"
    assert cluster.count(ApiKey.ABORT_TRANSACTION) == 0


@pytest.mark.slow
async def test_nothing_hangs_while_a_coordinator_is_silent(cluster: AdminCluster) -> None:
    cluster.loading[2] = CoordinatorLoadInProgressError.code
    shown = await transactions(cluster, "find-hanging", "--json")
    assert shown.code == 1
    assert shown.document["transactions"] == []
    assert [error["item"] for error in shown.document["errors"]] == ["broker 2", ""]
    assert "1 more may hang" in shown.err


@pytest.mark.parametrize(
    "wrong",
    [
        ["find-hanging", "--max-transaction-timeout", "x"],
        ["find-hanging", "-t", "t:"],
        ["abort", "-t", "t", "-p", "0"],
        ["abort", "-p", "0", "--producer-id", "1"],
    ],
)
async def test_command_lines_that_mean_nothing(cluster: AdminCluster, wrong: list[str]) -> None:
    shown = await transactions(cluster, *wrong)
    assert (shown.code, shown.out) == (2, "")


async def test_fence(cluster: AdminCluster) -> None:
    shown = await transactions(cluster, "fence", "pay", "none", "--dry-run")
    assert (shown.code, shown.out) == (1, "would fence pay\n")
    assert cluster.known_transactions["pay"].fenced_count == 0
    shown = await transactions(cluster, "fence", "pay")
    assert shown.code == 2
    shown = await transactions(cluster, "fence", "pay", "spark", "--yes", "--json")
    assert shown.code == 1
    pay, spark = shown.document["transactions"]
    assert (pay["fenced"], pay["producer_id"], pay["producer_epoch"]) == (True, 7, 5)
    assert (spark["fenced"], spark["error"]) == (False, "INVALID_TXN_STATE")


# ------------------------------------------------------------------------------ real brokers


async def consumed(cluster: Cluster, *arguments: str) -> list[str]:
    await all_marked(cluster)
    shown = await oncelog("consume", "t", "--until-end", *arguments, bootstrap=cluster.bootstrap)
    assert shown.code == 0, shown.err
    return sorted(shown.out.splitlines())


async def test_lines_are_one_transaction(tmp_path: Path) -> None:
    async with Cluster(tmp_path, transaction_state_log_replication_factor=1) as cluster:
        await cluster.create_topic("t", partitions=2)

        async def produce(lines: str, *more: str) -> Shown:
            return await oncelog(
                *("produce", "t", "-j", "--transactional-id", "pay", *more),
                stdin=lines.encode(),
                bootstrap=cluster.bootstrap,
            )

        good = "".join(f'{{"value": "{n}", "partition": {n % 2}}}\n' for n in range(4))
        shown = await produce(good)
        assert shown.code == 0, shown.err
        assert "4 records in t, committed" in shown.err
        assert await consumed(cluster) == ["0", "1", "2", "3"]
        shown = await produce('{"value": "bad"}\n{nonsense\n', "--json")
        assert shown.code == 1
        assert shown.document["committed"] is False
        assert await consumed(cluster) == ["0", "1", "2", "3"]
        everything = await consumed(cluster, "--isolation-level", "read_uncommitted")
        assert everything == ["0", "1", "2", "3", "bad"]
        shown = await produce(good, "--acks", "1")
        assert (shown.code, shown.out) == (2, "")
        shown = await produce(good, "--transaction-timeout", "soon")
        assert (shown.code, shown.out) == (2, "")
        (listed,) = (
            await oncelog("transactions", "list", "--json", bootstrap=cluster.bootstrap)
        ).document["transactions"]
        assert listed["transactional_id"] == "pay"
        assert listed["state"] in ("CompleteAbort", "PrepareAbort", "Empty")


async def test_an_open_transaction_is_seen_and_shut_out(tmp_path: Path) -> None:
    async with Cluster(tmp_path, transaction_state_log_replication_factor=1) as cluster:
        await cluster.create_topic("t", partitions=1)

        async def run(*arguments: str, code: int = 0) -> Any:
            shown = await oncelog(*arguments, "--json", bootstrap=cluster.bootstrap)
            assert shown.code == code, shown.err
            return shown.document

        async with Producer(cluster.bootstrap, transactional_id="pay") as producer:
            await producer.begin_transaction()
            await producer.send("t", b"x")
            (described,) = (await run("transactions", "describe", "pay"))["transactions"]
            assert described["state"] == "Ongoing"
            assert described["partitions"] == [{"topic": "t", "partition": 0}]
            (seen,) = (await run("producers", "describe", "t", "--open"))["producers"]
            assert (seen["producer_id"], seen["txn_start_offset"]) == (described["producer_id"], 0)
            hanging = await run("transactions", "find-hanging", "--max-transaction-timeout", "0s")
            assert hanging["transactions"] == []
            aborted = await run(
                "transactions",
                "abort",
                "-t",
                "t",
                "-p",
                "0",
                "-y",
                "--producer-id",
                str(seen["producer_id"]),
            )
            assert aborted["aborted"]["transactional_id"] == "pay"
            assert (await run("producers", "describe", "t", "--open"))["producers"] == []
            with pytest.raises(ProducerFencedError):
                await producer.commit_transaction()
        assert await consumed(cluster) == []


async def test_a_hanging_transaction_is_found_and_ended(tmp_path: Path) -> None:
    async with Cluster(tmp_path, transaction_state_log_replication_factor=1) as cluster:
        await cluster.create_topic("t", partitions=1)
        hang(cluster, "t", 0, b"hangs", producer_id=99_000)
        shown = await oncelog("produce", "t", stdin=b"behind\n", bootstrap=cluster.bootstrap)
        assert shown.code == 0
        assert await consumed(cluster) == []
        shown = await oncelog("transactions", "find-hanging", "--json", bootstrap=cluster.bootstrap)
        (hanging,) = shown.document["transactions"]
        assert (hanging["producer_id"], hanging["start_offset"]) == (99_000, 0)
        shown = await oncelog(
            *("transactions", "abort", "-t", "t", "-p", "0", "--start-offset", "0", "--yes"),
            bootstrap=cluster.bootstrap,
        )
        assert (shown.code, shown.err) == (0, "")
        assert await consumed(cluster) == ["behind"]
