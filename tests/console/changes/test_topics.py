"""Topics are created, grown and deleted as planned, and not when something has changed since."""

from __future__ import annotations

import pytest

from oncelog import Admin, Producer, TopicPartition
from oncelog.errors import UnknownTopicOrPartitionError
from oncelog_console.changes.change import FormError, RefusedError
from oncelog_console.plans import Fate, PlanError
from support.changes import Workshop
from support.cluster import Cluster


async def write(cluster: Cluster, topic: str, *keys: bytes | None) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for key in keys:
            await producer.send(topic, b"v", key=key)


# ------------------------------------------------------------------------------ create


async def test_a_topic_is_created(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan(
        "create-topic", topic="orders", partitions="3", configs="segment_ms=60000"
    )
    assert plan.change.typed == ""
    assert plan.seen.sentences[0] == "orders gets 3 partitions of 1 replica."
    assert plan.seen.answer.document["dry_run"]
    assert await admin.list_topics() == []
    done = await shop.carry_out(plan)
    assert done.fate is Fate.DONE
    assert done.answer is not None
    assert done.answer.document["topics"][0]["created"]
    await shop.arrives(plan)
    (topic,) = await admin.describe_topics(["orders"])
    assert len(topic.partitions) == 3
    shown = await shop.by_hand(plan)
    assert (shown.code, "TOPIC_ALREADY_EXISTS" in shown.err or "exists" in shown.err) == (1, True)


async def test_the_command_creates_the_same(shop: Workshop, admin: Admin) -> None:
    plan = await shop.plan(
        "create-topic", topic="-a", partitions="2", configs="retention_ms=-1\nsegment_ms=60000"
    )
    assert (await shop.by_hand(plan)).code == 0
    (topic,) = await admin.describe_topics(["-a"])
    (settings,) = await admin.describe_configs(topics=["-a"])
    assert len(topic.partitions) == 2
    chosen = {key: each.value for key, each in settings.settings.items() if each.source == "topic"}
    assert chosen == {"retention_ms": "-1", "segment_ms": "60000"}


async def test_what_brokers_would_refuse_is_not_planned(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    with pytest.raises(RefusedError, match="orders"):
        await shop.plan("create-topic", topic="orders")
    with pytest.raises(RefusedError, match="replication"):
        await shop.plan("create-topic", topic="more", replication_factor="9")
    with pytest.raises(FormError, match="expected KEY=VALUE"):
        await shop.plan("create-topic", topic="more", configs="retention_ms")


async def test_a_topic_that_has_come_to_be_voids_the_plan(shop: Workshop, cluster: Cluster) -> None:
    plan = await shop.plan("create-topic", topic="orders")
    await cluster.create_topic("orders", partitions=7)
    with pytest.raises(PlanError, match="void"):
        await shop.carry_out(plan)
    assert plan.fate is Fate.VOID


# ------------------------------------------------------------------------------ grow


async def test_partitions_are_added(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders", partitions=2)
    await write(cluster, "orders", *(b"%d" % number for number in range(20)))
    plan = await shop.plan("add-partitions", topic="orders", partitions="6")
    assert (
        plan.seen.sentences[0] == "orders has 2 partitions, and gets 4 more, with 1 replicas each."
    )
    assert plan.seen.sentences[1].startswith("20 offsets lie in it")
    (warning,) = plan.seen.warnings
    assert "2 of the 2 newest records, one a partition, have a key" in warning
    assert "About 67% of all keys" in warning
    await shop.carry_out(plan)
    await shop.arrives(plan)
    (topic,) = await admin.describe_topics(["orders"])
    assert len(topic.partitions) == 6


async def test_without_keys_no_order_is_lost(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    plan = await shop.plan("add-partitions", topic="orders", partitions="2")
    assert "no record was found" in plan.seen.warnings[0]
    await write(cluster, "orders", None)
    plan = await shop.plan("add-partitions", topic="orders", partitions="2")
    assert plan.seen.warnings[0].startswith("None of the newest records of 1 partition has a key")


async def test_somebody_else_has_added_partitions(
    shop: Workshop, cluster: Cluster, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    plan = await shop.plan("add-partitions", topic="orders", partitions="4")
    (await admin.create_partitions({"orders": 2})).raise_for_errors()
    with pytest.raises(PlanError, match="partitions of orders was 1, and is 2 now"):
        await shop.carry_out(plan)
    with pytest.raises(RefusedError, match="INVALID_PARTITIONS|partitions"):
        await shop.plan("add-partitions", topic="orders", partitions="1")


# ------------------------------------------------------------------------------ delete


async def test_a_topic_is_deleted(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders", partitions=2)
    await write(cluster, "orders", b"a", b"b", b"c")
    await admin.alter_group_offsets(
        "billing", {TopicPartition("orders", 0): 0, TopicPartition("orders", 1): 0}
    )
    plan = await shop.plan("delete-topic", topic="orders")
    assert plan.change.typed == "orders"
    sentence, readers = plan.seen.sentences
    assert sentence.startswith("orders goes with 2 partitions and up to 3 records, for good. The ")
    assert readers == "1 of 1 groups that read orders have not read all of that."
    goes, groups = plan.seen.tables
    assert sum(row["records"] for row in goes.rows) == 3
    assert all(row["bytes"] is not None for row in goes.rows)
    assert [(row["group"], row["unread"]) for row in groups.rows] == [("billing", 3)]
    with pytest.raises(PlanError, match="type 'orders' exactly"):
        await shop.carry_out(plan, "order")
    assert await admin.list_topics() == ["orders"]
    await shop.carry_out(plan)
    await shop.arrives(plan)
    assert await admin.list_topics() == []


async def test_the_command_deletes_it(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders")
    plan = await shop.plan("delete-topic", topic="orders")
    assert (await shop.by_hand(plan)).code == 0
    assert await admin.list_topics() == []


async def test_a_new_record_voids_the_plan(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders")
    plan = await shop.plan("delete-topic", topic="orders")
    await write(cluster, "orders", None)
    with pytest.raises(PlanError, match="the end of orders-0 was 0, and is 1 now"):
        await shop.carry_out(plan)
    assert await admin.list_topics() == ["orders"]


async def test_a_new_reader_voids_the_plan(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders")
    plan = await shop.plan("delete-topic", topic="orders")
    await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
    with pytest.raises(PlanError, match="groups that read orders was none, and is billing now"):
        await shop.carry_out(plan)


async def test_a_transaction_that_opens_voids_the_plan(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    plan = await shop.plan("delete-topic", topic="orders")
    async with Producer(cluster.bootstrap, transactional_id="x") as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"v")
        with pytest.raises(PlanError, match="transactions that are open there was none, and is"):
            await shop.carry_out(plan)
        again = await shop.plan("delete-topic", topic="orders")
        assert "1 transactions are open there" in again.seen.warnings[-1]
        await producer.abort_transaction()


async def test_another_topic_of_the_name_voids_the_plan(
    shop: Workshop, cluster: Cluster, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    plan = await shop.plan("delete-topic", topic="orders")
    (await admin.delete_topics(["orders"])).raise_for_errors()
    await cluster.create_topic("orders")
    with pytest.raises(PlanError, match="the id of the topic was"):
        await shop.carry_out(plan)
    assert await admin.list_topics() == ["orders"]


async def test_what_does_not_exist_cannot_be_deleted(shop: Workshop) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        await shop.plan("delete-topic", topic="orders")
