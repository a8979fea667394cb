"""One record is produced, and records are deleted, as planned."""

from __future__ import annotations

import pytest

from oncelog import Admin, Consumer, Producer, Record, TopicPartition
from oncelog_console.changes.change import FormError, RefusedError
from oncelog_console.plans import PlanError
from support.changes import Workshop
from support.cluster import Cluster

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


async def records(cluster: Cluster, topic: str = "orders") -> list[Record]:
    async with Consumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        return [record async for record in consumer.until_idle(0.3)]


async def write(cluster: Cluster, *counts: int, topic: str = "orders") -> None:
    async with Producer(cluster.bootstrap) as producer:
        for partition, count in enumerate(counts):
            for number in range(count):
                await producer.send(topic, b"%d" % number, partition=partition)


async def starts(admin: Admin) -> list[int | None]:
    return [each.offset for each in await admin.list_offsets([T0, T1], "earliest")]


# ------------------------------------------------------------------------------ produce


async def test_a_record_is_produced(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders", partitions=4)
    plan = await shop.plan(
        "produce-record",
        topic="orders",
        key="user-7",
        key_is="text",
        value="line one\r\nline two",
        headers="trace=abc\nempty=",
    )
    (sentence,) = plan.seen.sentences
    assert ", by its key. It counts when all in-sync replicas have it." in sentence
    assert "One record of 36 B goes to orders: partition " in sentence
    done = await shop.carry_out(plan)
    (record,) = await records(cluster)
    assert (record.key, record.value) == (b"user-7", b"line one\nline two")
    assert record.headers == (("trace", b"abc"), ("empty", b""))
    assert f"partition {record.partition}, by its key" in sentence
    assert done.answer is not None
    assert done.answer.document["partitions"] == [
        {"partition": record.partition, "records": 1, "first_offset": 0, "last_offset": 0}
    ]
    assert "user-7" not in plan.change.told(plan.seen), "the log holds no contents"
    shown = await shop.by_hand(plan, "--json")
    assert shown.document["partitions"][0]["last_offset"] == 1
    first, second = await records(cluster)
    assert (second.key, second.value, second.headers) == (first.key, first.value, first.headers)
    assert set(done.answer.document) == set(shown.document) - {"_command", "_version", "errors"}


async def test_bytes_and_tombstones(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders", partitions=2)
    form = {"topic": "orders", "key": "/w==", "key_is": "base64", "value_is": "null"}
    plan = await shop.plan("produce-record", **form, partition="1", acks="1")
    assert plan.seen.tables[0].rows[0]["content"] == "base64 /w=="
    await shop.carry_out(plan)
    assert (await shop.by_hand(plan)).code == 0
    assert [(each.partition, each.key, each.value) for each in await records(cluster)] == [
        (1, b"\xff", None)
    ] * 2


async def test_a_record_is_produced_again(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders", partitions=2)
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"\x00\xff", key=b"k", headers=[("h", None)], partition=1)
    plan = await shop.plan("produce-record", topic="orders", again="1@0", partition="0")
    await shop.carry_out(plan)
    found = sorted(await records(cluster), key=lambda each: each.partition)
    assert [(r.partition, r.key, r.value, r.headers) for r in found] == [
        (partition, b"k", b"\x00\xff", (("h", None),)) for partition in (0, 1)
    ]
    with pytest.raises(RefusedError, match="there is no record orders-1@7"):
        await shop.plan("produce-record", topic="orders", again="1@7")


async def test_the_end_of_a_transaction_is_not_produced_again(
    shop: Workshop, cluster: Cluster
) -> None:
    await cluster.create_topic("orders")
    producer = Producer(cluster.bootstrap, transactional_id="x")
    async with producer, producer.transaction():
        await producer.send("orders", b"paid")
    with pytest.raises(RefusedError, match=r"orders-0@1 is the end of a transaction, a COMMIT"):
        await shop.plan("produce-record", topic="orders", again="0@1")
    with pytest.raises(RefusedError, match="there is no 9"):
        await shop.plan("produce-record", topic="orders", again="9@0")


async def test_a_topic_that_has_grown_voids_the_plan(
    shop: Workshop, cluster: Cluster, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    plan = await shop.plan("produce-record", topic="orders", value="x")
    (await admin.create_partitions({"orders": 3})).raise_for_errors()
    with pytest.raises(PlanError, match="its number of partitions was 1, and is 3 now"):
        await shop.carry_out(plan)


async def test_a_record_that_is_too_large_fails(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders", max_message_bytes=200)
    done = await shop.carry_out(await shop.plan("produce-record", topic="orders", value="x" * 999))
    assert done.fate == "failed"
    assert done.answer is not None
    assert done.answer.document["failed"] == 1
    assert await records(cluster) == []


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"value": "x", "value_is": "null"}, "null has no content"),
        ({"value": "x", "value_is": "base64"}, "value is not base64"),
        ({"headers": "x"}, "is not KEY=VALUE"),
        ({"again": "1"}, "give PARTITION@OFFSET"),
        ({"again": "1@2", "value": "x"}, "its own key and value"),
        ({"partition": "x"}, "is no number"),
    ],
)
async def test_forms(shop: Workshop, form: dict[str, str], words: str) -> None:
    with pytest.raises(FormError, match=words):
        await shop.plan("produce-record", topic="orders", **form)


async def test_partitions_that_are_not_there(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    with pytest.raises(RefusedError, match="topic orders has no partition 3"):
        await shop.plan("produce-record", topic="orders", partition="3")


# ------------------------------------------------------------------------------ delete


async def test_records_are_deleted(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders", partitions=2)
    await write(cluster, 10, 4)
    await admin.alter_group_offsets("billing", {T0: 2, T1: 4})
    plan = await shop.plan("delete-records", topic="orders", before="-3")
    assert plan.change.typed == "orders"
    assert plan.seen.sentences[0].startswith("Up to 8 records of 2 partitions go, for good")
    goes, groups = plan.seen.tables
    assert [(row["partition"], row["before_offset"], row["offsets"]) for row in goes.rows] == [
        (0, 7, 7),
        (1, 1, 1),
    ]
    assert all(row["first"] and row["left"] and row["bytes"] for row in goes.rows)
    assert groups.rows == [
        {"group": "billing", "state": "Empty", "members": 0, "unread": 5},
    ]
    await write(cluster, 1)
    await shop.carry_out(plan)
    await shop.arrives(plan)
    assert await starts(admin) == [7, 1], "as it was planned: new records are no matter"


@pytest.mark.parametrize("partitions", ["", "0"])
async def test_the_command_deletes_the_same(
    shop: Workshop, cluster: Cluster, admin: Admin, partitions: str
) -> None:
    await cluster.create_topic("orders", partitions=2)
    await write(cluster, 10, 4)
    form = {"topic": "orders", "partitions": partitions, "before": "@-0s"}
    plan = await shop.plan_at(shop.desk.now_ms + 60_000, "delete-records", **form)
    shown = await shop.by_hand(plan)
    assert (shown.code, shown.err) == (0, "")
    assert await starts(admin) == ([10, 0] if partitions else [10, 4])


async def test_retention_voids_the_plan(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders", partitions=2)
    await write(cluster, 10)
    plan = await shop.plan("delete-records", topic="orders", before="5")
    await admin.delete_records({T0: 3})
    with pytest.raises(PlanError, match="the start of orders-0 was 0, and is 3 now"):
        await shop.carry_out(plan)
    assert await starts(admin) == [3, 0]


async def test_a_group_that_has_not_read_voids_the_plan(
    shop: Workshop, cluster: Cluster, admin: Admin
) -> None:
    await cluster.create_topic("orders", partitions=2)
    await write(cluster, 10)
    await admin.alter_group_offsets("billing", {T0: 6})
    plan = await shop.plan("delete-records", topic="orders", before="5")
    await admin.alter_group_offsets("billing", {T0: 4})
    with pytest.raises(PlanError, match="have not read all of what goes was none, and is billing"):
        await shop.carry_out(plan)


async def test_nothing_to_delete_is_no_plan(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    with pytest.raises(RefusedError, match="no record lies below that"):
        await shop.plan("delete-records", topic="orders", before="end")
    with pytest.raises(RefusedError, match="not committed"):
        await shop.plan("delete-records", topic="orders", before="7")
    with pytest.raises(RefusedError, match="no partition 5"):
        await shop.plan("delete-records", topic="orders", partitions="5", before="end")


@pytest.mark.parametrize("before", ["", "1:5", "soon", "@", "--5"])
async def test_points(shop: Workshop, before: str) -> None:
    with pytest.raises(FormError, match="^before: "):
        await shop.plan("delete-records", topic="orders", before=before)
