"""``oncelog topics`` runs against real brokers here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog_protocol.messages.groups import FindCoordinatorRequest
from support.cluster import Cluster
from support.hand_records import produce
from support.shell import oncelog
from support.waiting import eventually


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, brokers=2) as cluster:
        yield cluster


async def hold(cluster: Cluster, *topics: str) -> None:
    """Wait until every broker knows of these topics and no others: an answer of the controller may
    be ahead of what another broker knows."""
    await eventually(
        lambda: all(
            sorted(broker.image.topics) == sorted(topics) for broker in cluster.brokers.values()
        ),
        what=f"brokers that know of {topics}",
    )
    shown = await oncelog("topics", "list", "--json", bootstrap=cluster.bootstrap)
    assert shown.code == 0
    assert [row["topic"] for row in shown.document["topics"]] == sorted(topics)


async def test_create_list_describe(cluster: Cluster) -> None:
    shown = await oncelog(
        *("topics", "create", "orders", "-p", "3", "-r", "2", "-c", "retention.ms=60000"),
        bootstrap=cluster.bootstrap,
    )
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == "created orders: 3 partitions, replication factor 2\n"
    await hold(cluster, "orders")

    shown = await oncelog("topics", "list", bootstrap=cluster.bootstrap)
    assert [line.split() for line in shown.out.splitlines()] == [
        ["TOPIC", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "LEADERLESS"],
        ["orders", "3", "2", "0", "0"],
    ]

    channel = await cluster.channel(cluster.leader("orders", 1))
    await produce(channel, "orders", 1, [b"a", b"b"])
    channel.close()
    shown = await oncelog("topics", "describe", "orders", "--json", bootstrap=cluster.bootstrap)
    assert shown.code == 0
    (topic,) = shown.document["topics"]
    assert topic["topic"] == "orders"
    assert [p["partition"] for p in topic["partitions"]] == [0, 1, 2]
    assert [sorted(p["isr"]) for p in topic["partitions"]] == [[1, 2]] * 3
    assert (topic["partitions"][1]["start_offset"], topic["partitions"][1]["end_offset"]) == (0, 2)
    assert [(c["key"], c["value"], c["source"]) for c in topic["configs"]] == [
        ("retention_ms", "60000", "topic")
    ]

    shown = await oncelog("topics", "describe", "orders", bootstrap=cluster.bootstrap)
    assert "orders: 3 partitions, replication factor 2" in shown.out
    assert "retention_ms  60000  topic" in shown.out

    shown = await oncelog(
        *("topics", "describe", "orders", "--configs", "--no-offsets", "--json"),
        bootstrap=cluster.bootstrap,
    )
    (topic,) = shown.document["topics"]
    assert topic["partitions"][1]["end_offset"] is None
    assert {"default", "topic"} <= {c["source"] for c in topic["configs"]}


async def test_one_failure_does_not_stop_the_others(cluster: Cluster) -> None:
    await cluster.create_topic("a")
    shown = await oncelog("topics", "create", "a", "b", "--json", bootstrap=cluster.bootstrap)
    assert shown.code == 1
    assert [(row["topic"], row["created"]) for row in shown.document["topics"]] == [
        ("a", False),
        ("b", True),
    ]
    (error,) = shown.document["errors"]
    assert (error["item"], error["error"]) == ("a", "TOPIC_ALREADY_EXISTS")
    assert len(shown.err.splitlines()) == 1

    shown = await oncelog("topics", "describe", "a", "none", bootstrap=cluster.bootstrap)
    assert shown.code == 1
    assert shown.out.startswith("a: 1 partition, replication factor 1")
    assert "none" in shown.err

    shown = await oncelog(
        "topics", "create", "a", "c", "--if-not-exists", bootstrap=cluster.bootstrap
    )
    assert shown.code == 0
    assert shown.out.splitlines()[0] == "a exists"


async def test_a_dry_run_changes_nothing(cluster: Cluster) -> None:
    await cluster.create_topic("a")
    for arguments in (
        ["create", "b", "--dry-run"],
        ["alter", "a", "-p", "5", "--dry-run"],
        ["delete", "a", "--dry-run"],
    ):
        shown = await oncelog("topics", *arguments, bootstrap=cluster.bootstrap)
        assert shown.code == 0, shown.err
        assert shown.out.startswith("would ")
    await hold(cluster, "a")
    shown = await oncelog("topics", "create", "a", "--dry-run", bootstrap=cluster.bootstrap)
    assert shown.code == 1


async def test_alter(cluster: Cluster) -> None:
    await cluster.create_topic("t", segment_bytes=100_000)
    shown = await oncelog(
        *("topics", "alter", "t", "-p", "3", "-c", "retention_ms=5000"),
        *("--delete-config", "segment_bytes"),
        bootstrap=cluster.bootstrap,
    )
    assert (shown.code, shown.out, shown.err) == (0, "altered t\n", "")
    await eventually(
        lambda: all(
            len(broker.image.topics["t"].partitions) == 3
            and broker.image.overrides("t") == {"retention_ms": "5000"}
            for broker in cluster.brokers.values()
        )
    )
    shown = await oncelog("topics", "describe", "t", "--json", bootstrap=cluster.bootstrap)
    (topic,) = shown.document["topics"]
    assert topic["partition_count"] == 3
    assert [(c["key"], c["value"]) for c in topic["configs"]] == [("retention_ms", "5000")]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-c", "segment_bytes=much", "-p", "3"], "segment_bytes"),
        (["-c", "nonsense=1"], "nonsense"),
        (["-p", "1"], "t"),
    ],
)
async def test_what_is_refused_changes_nothing(
    cluster: Cluster, arguments: list[str], word: str
) -> None:
    await cluster.create_topic("t", partitions=2)
    shown = await oncelog("topics", "alter", "t", *arguments, bootstrap=cluster.bootstrap)
    assert shown.code == 1
    assert word in shown.err
    assert len(shown.err.splitlines()) == 1
    shown = await oncelog("topics", "describe", "t", "--json", bootstrap=cluster.bootstrap)
    (topic,) = shown.document["topics"]
    assert (topic["partition_count"], topic["configs"]) == (2, [])


async def test_delete_asks_first(cluster: Cluster) -> None:
    await cluster.create_topic("a")
    shown = await oncelog("topics", "delete", "a", bootstrap=cluster.bootstrap)
    assert shown.code == 2
    assert "--yes" in shown.err
    await hold(cluster, "a")
    shown = await oncelog("topics", "delete", "a", "none", "--yes", bootstrap=cluster.bootstrap)
    assert shown.code == 1
    assert shown.out == "deleted a\n"
    assert "none" in shown.err
    await hold(cluster)
    shown = await oncelog(
        "topics", "delete", "none", "--yes", "--if-exists", bootstrap=cluster.bootstrap
    )
    assert shown.code == 0


async def make_internal_topic(cluster: Cluster) -> None:
    """Whoever asks for the coordinator of a group has ``__consumer_offsets`` made."""
    async with asyncio.timeout(30):
        while (await cluster.call(1, FindCoordinatorRequest("g"))).error_code:
            await asyncio.sleep(0.05)


async def test_names_by_regular_expression(cluster: Cluster) -> None:
    for name in ("logs-1", "logs-2", "orders"):
        await cluster.create_topic(name)
    shown = await oncelog("topics", "list", "-r", "logs-.", "--json", bootstrap=cluster.bootstrap)
    assert [row["topic"] for row in shown.document["topics"]] == ["logs-1", "logs-2"]
    shown = await oncelog("topics", "delete", "-r", "logs-.*", "-y", bootstrap=cluster.bootstrap)
    assert shown.out == "deleted logs-1\ndeleted logs-2\n"
    await hold(cluster, "orders")
    shown = await oncelog("topics", "describe", "-r", "logs-.*", bootstrap=cluster.bootstrap)
    assert shown.code == 1
    assert "no topic matches logs-.*" in shown.err
    await make_internal_topic(cluster)
    shown = await oncelog("topics", "delete", "-r", ".*", "--dry-run", bootstrap=cluster.bootstrap)
    assert "orders" in shown.out
    assert "__consumer_offsets" not in shown.out
    shown = await oncelog("topics", "describe", "-r", "__.*", bootstrap=cluster.bootstrap)
    assert "__consumer_offsets" in shown.out
    shown = await oncelog("topics", "describe", "-r", "(", bootstrap=cluster.bootstrap)
    assert shown.code == 2


async def test_only_the_sick_ones(cluster: Cluster) -> None:
    await cluster.create_topic("well", replication_factor=1)
    await cluster.create_topic("sick", replication_factor=2)
    await cluster.stop_broker(2)
    await cluster.converged()
    await eventually(lambda: cluster.state("sick").isr == [1])
    shown = await oncelog(
        "topics", "list", "--under-replicated", "--json", bootstrap=cluster.bootstrap
    )
    assert "sick" in [row["topic"] for row in shown.document["topics"]]
    shown = await oncelog("topics", "list", "--unavailable", "--json", bootstrap=cluster.bootstrap)
    assert "sick" not in [row["topic"] for row in shown.document["topics"]]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["alter", "t"], "--partitions"),
        (["alter", "t", "-c", "a=1", "--delete-config", "a"], "'a'"),
        (["create", "t", "-p", "0"], "--partitions"),
        (["create", "t", "-c", "a"], "KEY=VALUE"),
    ],
)
async def test_usage(arguments: list[str], word: str) -> None:
    shown = await oncelog("topics", *arguments, bootstrap="127.0.0.1:1")
    assert shown.code == 2
    assert word in shown.err


async def test_a_failure_as_a_whole_is_a_document_too() -> None:
    shown = await oncelog("topics", "list", "--json", bootstrap="127.0.0.1:1")
    assert shown.code == 1
    assert shown.document["_command"] == "topics list"
    assert shown.document["errors"][0]["error"] == "NoBrokersAvailableError"
