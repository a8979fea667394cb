"""A user's program is as strictly typed as it can be: nothing here may be an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import assert_type

from oncelog import (
    Admin,
    BatchMetadata,
    ClientHealth,
    ColumnBatch,
    Consumer,
    Delivery,
    NewTopic,
    Producer,
    ProducerRecord,
    Record,
    RecordMetadata,
    Retry,
    SharedTransaction,
    SharedWriter,
    Ticket,
    TopicPartition,
    blocking,
    join,
)
from oncelog.observability.otel import TracedConsumer

BOOTSTRAP = "localhost:9092"


@dataclass
class Order:
    """A record holds this."""

    customer: str
    cents: int


def order_of(record: Record) -> Order:
    """Decode a record."""
    return Order(**json.loads(record.value or b"{}"))


async def handle_record(record: Record) -> None:
    """It handles records."""
    print(record.topic, record.offset, record.value)


async def handle_order(order: Order) -> None:
    """It handles what ``decode`` returns."""
    print(order.customer, order.cents)


def handle_in_a_thread(order: Order) -> None:
    """This handler is a plain function."""
    print(order.cents)


async def answers(order: Order) -> AsyncIterator[ProducerRecord]:
    """Its answers are written in a transaction."""
    yield ProducerRecord("answers", order.customer.encode())


async def asynchronous() -> None:
    """Use the asynchronous clients."""
    async with Producer(BOOTSTRAP, acks="all", linger_ms=5) as producer:
        assert_type(producer, Producer)
        assert_type(await producer.send("orders", b"value", key=b"key"), RecordMetadata)
        delivery = await producer.enqueue("orders", b"value", headers=[("a", b"b")])
        assert_type(delivery, Delivery)
        assert_type(await delivery, RecordMetadata)
        assert_type(await producer.send_many("orders", [b"a", None]), BatchMetadata)
        assert_type(await producer.partitions_for("orders"), int)
    async with Consumer("orders", bootstrap_servers=BOOTSTRAP, group_id="workers") as consumer:
        async for record in consumer:
            assert_type(record, Record)
            assert_type(record.value, bytes | None)
            await consumer.commit({TopicPartition("orders", 0): record.offset + 1})
        async for record in consumer.until_idle(0.5):
            assert_type(record, Record)
        async for batch in consumer.batches():
            assert_type(batch, ColumnBatch)
        await consumer.run(handle_record)
        await consumer.run(lambda record: print(record.offset))
        await consumer.run(handle_order, decode=order_of, concurrency=10, retry=Retry(3))
        await consumer.run(handle_in_a_thread, decode=order_of, order="partition")
        await consumer.run(answers, decode=order_of, transactional_id="answers")
    async with Admin(BOOTSTRAP) as admin:
        (await admin.create_topics([NewTopic("orders", partitions=3)])).raise_for_errors()


def waiting() -> None:
    """Use the clients that wait."""
    with blocking.Producer(BOOTSTRAP, acks="all", linger_ms=5) as producer:
        assert_type(producer, blocking.Producer)
        assert_type(producer.send("orders", b"value", key=b"key"), RecordMetadata)
        delivery = producer.enqueue("orders", b"value", headers=[("a", b"b")])
        assert_type(delivery, blocking.Delivery)
        assert_type(delivery.result(5), RecordMetadata)
        assert_type(producer.send_nowait("orders", b"value"), blocking.Delivery)
        assert_type(producer.send_many("orders", [b"a", None]), BatchMetadata)
        assert_type(producer.partitions_for("orders"), int)
        assert_type(producer.unacknowledged_count, int)
        with producer.transaction() as transaction:
            assert_type(transaction, blocking.Transaction)
            assert_type(transaction.send("orders", b"value"), RecordMetadata)
    consumer = blocking.Consumer("orders", bootstrap_servers=BOOTSTRAP, group_id="workers")
    assert_type(consumer, blocking.Consumer)
    with consumer:
        for record in consumer:
            assert_type(record, Record)
        for record in consumer.until_idle(10):
            assert_type(record, Record)
        for batch in consumer.batches():
            assert_type(batch, ColumnBatch)
        assert_type(consumer.health(), ClientHealth)
        assert_type(consumer.health().silent_since_ms, int | None)
        assert_type(consumer.getmany(timeout_ms=10), dict[TopicPartition, list[Record]])
        assert_type(consumer.assignment(), list[TopicPartition])
        assert_type(consumer.position(TopicPartition("orders", 0)), int)
        assert_type(consumer.commit_async(), Future[None])
        consumer.run(handle_record, stop_on_signals=True)
        consumer.run(lambda record: print(record.offset))
        consumer.run(handle_order, decode=order_of, concurrency=10, retry=Retry(3))
        consumer.run(answers, decode=order_of, transactional_id="answers")
    with blocking.Admin(BOOTSTRAP) as admin:
        assert_type(admin, blocking.Admin)
        admin.create_topics([NewTopic("orders", partitions=3)]).raise_for_errors()
        assert_type(admin.list_topics(), list[str])


async def traced(consumer: TracedConsumer) -> None:
    """Write spans."""
    await consumer.run(handle_record)
    await consumer.run(handle_order, decode=order_of, concurrency=10)
    async for record in consumer.until_idle(1):
        assert_type(record, Record)


def shared(ticket: Ticket) -> None:
    """Take part in a transaction of many processes."""
    with blocking.join(ticket, writer="one", linger_ms=0) as writer:
        assert_type(writer, blocking.SharedWriter)
        assert_type(writer.send("orders", b"value"), RecordMetadata)
        receipt = writer.receipt
    owner = blocking.SharedTransaction(ticket, max_block_ms=1_000)
    owner.commit([receipt])
    begun = blocking.SharedTransaction.begin(
        bootstrap_servers=BOOTSTRAP, transactional_id="job", tag=0
    )
    assert_type(begun, blocking.SharedTransaction)
    assert_type(begun.ticket, Ticket)


async def shared_asynchronous(ticket: Ticket) -> None:
    """Do the same on a loop."""
    async with await join(ticket, writer="one") as writer:
        assert_type(writer, SharedWriter)
    owner = await SharedTransaction.begin(
        bootstrap_servers=BOOTSTRAP, transactional_id="job", tag=0
    )
    await owner.abort()


if __name__ == "__main__":
    asyncio.run(asynchronous())
    waiting()
