"""Who is affected by a change is found: groups that read a topic, and open transactions."""

from __future__ import annotations

import pytest

from oncelog import Admin, Producer, TopicPartition
from oncelog_console.changes import readers
from oncelog_console.changes.readers import groups_reading, open_transactions
from support.changes import Workshop
from support.cluster import Cluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_groups_that_read_a_topic(
    shop: Workshop, cluster: Cluster, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.create_topic("t", partitions=2)
    await cluster.create_topic("u")
    await admin.alter_group_offsets("all", {T0: 7, T1: 9})
    await admin.alter_group_offsets("some", {T0: 2})
    await admin.alter_group_offsets("elsewhere", {TopicPartition("u", 0): 0})
    monkeypatch.setattr(readers, "SLICE", 2)
    found = await groups_reading(shop.desk, "t", {T0: 5, T1: 9})
    assert [(row["group"], row["unread"]) for row in found.tables[0].rows] == [
        ("all", 0),
        ("some", 3),
    ]
    assert found.facts == {
        "groups that read t": ("all", "some"),
        "groups that have not read all of what goes": ("some",),
    }
    assert found.sentences == ["1 of 2 groups that read t have not read all of that."]
    monkeypatch.setattr(readers, "GROUPS_MAX", 1)
    found = await groups_reading(shop.desk, "t", {T0: 5})
    assert found.warnings == ["2 more groups exist, and were not asked"]


async def test_nobody_reads_or_writes(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("t", partitions=2)
    found = await groups_reading(shop.desk, "t", {T0: 5})
    assert found.sentences == ["No group has committed an offset of t."]
    assert not found.tables
    found = await open_transactions(shop.desk, [T0, T1])
    assert found.facts == {"transactions that are open there": ()}
    assert not found.warnings


async def test_open_transactions(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("t", partitions=2)
    async with Producer(cluster.bootstrap, transactional_id="x") as producer:
        await producer.begin_transaction()
        await producer.send("t", b"v", partition=1)
        found = await open_transactions(shop.desk, [T0, T1])
        (row,) = found.tables[0].rows
        assert (row["partition"], row["start_offset"]) == ("t-1", 0)
        assert found.facts["transactions that are open there"] == (
            f"producer {row['producer_id']} in t-1",
        )
        await producer.abort_transaction()
        found = await open_transactions(shop.desk, [TopicPartition("none", 0)])
        assert found.warnings[0].startswith("none-0: open transactions are not known")
