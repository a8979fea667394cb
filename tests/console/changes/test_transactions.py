"""Transactions that hang are aborted, and producers fenced, as planned."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog.errors import ProducerFencedError
from oncelog_console.changes.change import FormError, RefusedError
from oncelog_console.plans import Fate, PlanError
from support.changes import Workshop
from support.cluster import Cluster
from support.hanging import LONG_AGO_MS, hang

T0 = TopicPartition("t", 0)
HANGS = {"topic": "t", "partition": "0", "producer_id": "99000", "start_offset": "0"}


async def values(cluster: Cluster) -> list[bytes | None]:
    """Return what readers at read_committed see."""
    async with Consumer(
        "t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        return [record.value async for record in consumer.until_idle(0.3)]


@pytest_asyncio.fixture
async def producer(cluster: Cluster) -> AsyncIterator[Producer]:
    """The id pay has written one record in a transaction that is open."""
    await cluster.create_topic("t")
    async with Producer(cluster.bootstrap, transactional_id="pay") as producer:
        await producer.begin_transaction()
        await producer.send("t", b"open")
        yield producer
        try:
            await producer.abort_transaction()
        except ProducerFencedError:
            pass


# ------------------------------------------------------------------------------ abort


async def test_a_hanging_transaction_is_aborted(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("t")
    hang(cluster, "t", 0, b"hangs", producer_id=99_000)
    async with Producer(cluster.bootstrap) as other:
        await other.send("t", b"behind")
    assert await values(cluster) == []
    plan = await shop.plan("abort-transaction", **HANGS)
    assert plan.change.typed == "t-0@0"
    ends, silent, held = plan.seen.sentences
    assert ends == "No coordinator knows this transaction: a marker ends it in t-0 alone."
    assert silent.startswith("Its producer, 99000, has been silent for ")
    assert held.startswith("2 records are held back in 1 partitions")
    assert plan.seen.facts["its last write"] == LONG_AGO_MS
    with pytest.raises(PlanError, match="type 't-0@0' exactly"):
        await shop.carry_out(plan, "t-0")
    await shop.carry_out(plan)
    await shop.arrives(plan)
    assert await values(cluster) == [b"behind"]
    with pytest.raises(RefusedError, match="no transaction of producer 99000 is open"):
        await shop.plan("abort-transaction", **HANGS)


async def test_the_command_aborts_it(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("t")
    hang(cluster, "t", 0, b"hangs", producer_id=99_000)
    plan = await shop.plan("abort-transaction", **HANGS)
    assert (await shop.by_hand(plan)).code == 0
    with pytest.raises(PlanError, match="void.*no transaction of producer 99000"):
        await shop.carry_out(plan)


async def test_a_coordinator_ends_what_it_knows(
    shop: Workshop, cluster: Cluster, producer: Producer, admin: Admin
) -> None:
    (described,) = await admin.describe_transactions(["pay"])
    form = {**HANGS, "producer_id": str(described.producer_id)}
    plan = await shop.plan("abort-transaction", **form)
    assert plan.seen.sentences[0].startswith("The coordinator of pay ends it in all")
    await producer.send("t", b"one more")
    with pytest.raises(PlanError, match="its last write was"):
        await shop.carry_out(plan)
    again = await shop.plan("abort-transaction", **form)
    await shop.carry_out(again)
    assert again.fate is Fate.DONE
    await shop.arrives(again)
    with pytest.raises(ProducerFencedError):
        await producer.commit_transaction()


async def test_forms(shop: Workshop) -> None:
    for name in HANGS:
        with pytest.raises(FormError, match=f"^{name}: "):
            await shop.plan("abort-transaction", **{**HANGS, name: ""})
    with pytest.raises(FormError, match="only shows it"):
        await shop.plan("abort-transaction", **{**HANGS, "topic": "__consumer_offsets"})


# ------------------------------------------------------------------------------ fence


async def test_a_producer_is_fenced(shop: Workshop, producer: Producer) -> None:
    plan = await shop.plan("fence-producer", transactional_id="pay")
    assert plan.change.typed == "pay"
    text = " ".join(plan.seen.sentences)
    assert "epoch 0, is shut out: its next call fails" in text
    assert "is aborted, and its producer has been silent for" in text
    assert [row["held"] for row in plan.seen.tables[0].rows] == [1]
    done = await shop.carry_out(plan)
    await shop.arrives(plan)
    assert done.answer is not None
    assert done.answer.document["transactions"][0]["fenced"]
    with pytest.raises(ProducerFencedError):
        await producer.commit_transaction()


async def test_the_command_fences_it(shop: Workshop, producer: Producer) -> None:
    plan = await shop.plan("fence-producer", transactional_id="pay")
    assert (await shop.by_hand(plan)).code == 0
    with pytest.raises(ProducerFencedError):
        await producer.commit_transaction()


async def test_what_has_ended_voids_the_plan(shop: Workshop, producer: Producer) -> None:
    plan = await shop.plan("fence-producer", transactional_id="pay")
    await producer.commit_transaction()
    with pytest.raises(PlanError, match="the state of the transaction was Ongoing"):
        await shop.carry_out(plan)
    await producer.begin_transaction()


async def test_an_id_that_nobody_uses_is_not_fenced(shop: Workshop) -> None:
    with pytest.raises(RefusedError, match="nobody"):
        await shop.plan("fence-producer", transactional_id="nobody")
