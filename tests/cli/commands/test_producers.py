"""``oncelog producers`` shows what leaders say, and what is wrong with single partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from oncelog_protocol.messages.transaction_admin import DescribedProducer
from oncelog_protocol.types import TopicPartition
from support.admin_cluster import AdminCluster
from support.shell import Shown, oncelog


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    """Topic t has two partitions: producer 7 is in both, with an open transaction in the first."""
    async with AdminCluster(2) as cluster:
        cluster.create_topic("t", 2)
        cluster.producers[TopicPartition("t", 0)] = [
            DescribedProducer(7, 4, 3, 1_000_000_000_000, 2, 50),
            DescribedProducer(8, 0, -1, -1),
        ]
        cluster.producers[TopicPartition("t", 1)] = [DescribedProducer(7, 4, 9, 0, 2)]
        yield cluster


async def producers(cluster: AdminCluster, *arguments: str) -> Shown:
    return await oncelog("producers", *arguments, bootstrap=cluster.bootstrap)


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_describe(cluster: AdminCluster) -> None:
    shown = await producers(cluster, "describe", "t")
    assert (shown.code, shown.err) == (0, "")
    assert cells(shown.out)[1:] == [
        ["t", "0", "7", "4", "3", "2001-09-09T01:46:40.000Z", "50"],
        ["t", "0", "8", "0", "-", "-", "-"],
        ["t", "1", "7", "4", "9", "1970-01-01T00:00:00.000Z", "-"],
    ]
    by_pattern = await producers(cluster, "describe", "-r", "[tx]")
    assert by_pattern.out == shown.out
    assert (await producers(cluster, "describe", "-r", "[xy]")).code == 1
    wide = await producers(cluster, "describe", "t:1", "-f", "wide")
    assert cells(wide.out)[1][-1] == "2"


async def test_filters(cluster: AdminCluster) -> None:
    shown = await producers(cluster, "describe", "t", "--open", "--json")
    assert [
        (row["producer_id"], row["txn_start_offset"]) for row in shown.document["producers"]
    ] == [(7, 50)]
    shown = await producers(cluster, "describe", "t", "--producer-id", "8", "--json")
    (row,) = shown.document["producers"]
    assert (row["last_sequence"], row["last_timestamp_ms"], row["coordinator_epoch"]) == (
        None,
        None,
        None,
    )


async def test_what_is_not_there(cluster: AdminCluster) -> None:
    shown = await producers(cluster, "describe", "t:0,9", "none", "--json")
    assert shown.code == 1
    assert len(shown.document["producers"]) == 2
    assert [error["error"] for error in shown.document["errors"]] == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    shown = await producers(cluster, "describe", "t:x")
    assert (shown.code, shown.out) == (2, "")
