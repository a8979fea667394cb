"""A user makes mistakes here. What follows ``wrong:`` is a part of what each checker says of that
line."""

from __future__ import annotations

from oncelog import (
    Consumer,
    Producer,
    Record,
    Retry,
    SharedWriter,
    Ticket,
    TopicPartition,
    blocking,
)
from oncelog.observability.otel import TracedConsumer, TracedProducer

BOOTSTRAP = "localhost:9092"


def length_of(value: bytes) -> int:
    """No handler, and no decoder: these get a record."""
    return len(value)


def text_of(record: Record) -> str:
    """Decode a record."""
    return str(record.value)


def constructors(ticket: Ticket) -> None:
    """Give options that do not exist, or of another type."""
    Producer(BOOTSTRAP, ack="all")  # wrong: "ack"
    Producer(BOOTSTRAP, acks="most")  # wrong: acks
    blocking.Producer()  # wrong: bootstrap_servers
    blocking.Producer(BOOTSTRAP, ack="all")  # wrong: "ack"
    blocking.Producer(BOOTSTRAP, acks="most")  # wrong: acks
    blocking.Producer(9092)  # wrong: str
    blocking.Consumer("orders")  # wrong: bootstrap_servers
    blocking.Consumer(1, bootstrap_servers=BOOTSTRAP)  # wrong: str
    blocking.Consumer(bootstrap_servers=BOOTSTRAP, group=1)  # wrong: "group"
    blocking.Admin(BOOTSTRAP, acks="all")  # wrong: "acks"
    blocking.SharedTransaction("ticket")  # wrong: Ticket
    blocking.SharedTransaction(ticket, acks=1)  # wrong: "acks"
    blocking.SharedTransaction.begin(tag=0)  # wrong: bootstrap_servers
    blocking.join(ticket)  # wrong: "writer"
    blocking.join(ticket, writer=1)  # wrong: "writer"


def producing(producer: blocking.Producer) -> None:
    """Misuse methods of a producer."""
    producer.sent("orders")  # wrong: "sent"
    producer.send("orders", "text")  # wrong: bytes | None
    producer.send("orders", b"value", headers={"a": b"b"})  # wrong: headers
    producer.send(b"orders", b"value")  # wrong: "str"
    producer.send("orders", b"value", b"key")  # wrong: positional arguments
    producer.send("orders", b"value", kye=b"key")  # wrong: "kye"
    producer.send_many("orders", [b"value"], keys=b"key")  # wrong: Sequence[bytes | None]
    producer.enqueue_many("orders", [b"value"], key=[b"key"])  # wrong: "key"
    print(producer.enqueue("orders", b"value").offset)  # wrong: "offset"
    producer.send_many("orders", "text")  # wrong: Sequence[bytes | None]
    number: str = producer.partitions_for("orders")  # wrong: "str"
    print(number)
    with producer.transaction() as transaction:
        transaction.sent("orders")  # wrong: "sent"
        transaction.send("orders", 1)  # wrong: bytes | None
        transaction.send("orders", b"value", partition="0")  # wrong: "partition"
        transaction.enqueue("orders", b"value", kye=b"key")  # wrong: "kye"
        transaction.send_many("orders", [b"value"], timestamps_ms="now")  # wrong: "timestamps_ms"
    with blocking.Producer(BOOTSTRAP) as made:
        made.sent("orders")  # wrong: "sent"
        made.send("orders", 1)  # wrong: bytes | None


def consuming(consumer: blocking.Consumer) -> None:
    """Misuse methods of a consumer."""
    consumer.poll()  # wrong: "poll"
    consumer.seek("orders", 0, 5)  # wrong: arguments
    consumer.seek(TopicPartition("orders", 0), "5")  # wrong: "int"
    consumer.getmany(500)  # wrong: positional arguments
    for record in consumer:
        print(record.values)  # wrong: "values"
        record.value.decode()  # wrong: "decode"
    consumer.until_idle("10")  # wrong: "float"
    consumer.run(length_of)  # wrong: Record
    consumer.run(length_of, decode=text_of)  # wrong: "run"
    consumer.run(print, decode=length_of)  # wrong: "decode"
    consumer.run(print, order="any")  # wrong: run
    consumer.run(print, retry=3)  # wrong: run
    consumer.run(print, retries=Retry(3))  # wrong: run
    consumer.run(print, handler_timeout=3)  # wrong: run
    consumer.run()  # wrong: run


def administering(admin: blocking.Admin) -> None:
    """Misuse methods of an admin client."""
    admin.make_topics(["orders"])  # wrong: "make_topics"
    admin.create_topics([1])  # wrong: NewTopic | str
    admin.list_topics(timeout_ms="1")  # wrong: "timeout_ms"


async def tracing(producer: TracedProducer, writer: SharedWriter) -> None:
    """Misuse clients that send through a producer, or in spans."""
    await producer.send("orders", b"value", kye=b"key")  # wrong: "kye"
    producer.send_nowait("orders", b"value", headers={"a": b"b"})  # wrong: headers
    await producer.enqueue_many("orders", [b"value"], partition="0")  # wrong: "partition"
    await writer.enqueue("orders", b"value", timestamp_ms="0")  # wrong: "timestamp_ms"
    await writer.send_many("orders", [b"value"], key=[b"key"])  # wrong: "key"


async def asynchronous(producer: Producer, consumer: Consumer, traced: TracedConsumer) -> None:
    """Misuse the asynchronous clients."""
    await producer.sent("orders")  # wrong: "sent"
    await producer.send("orders", "text")  # wrong: bytes | None
    await consumer.poll()  # wrong: "poll"
    await consumer.run(length_of)  # wrong: Record
    await consumer.run(length_of, decode=text_of)  # wrong: "run"
    await consumer.run(print, retry=3)  # wrong: run
    await traced.run(length_of)  # wrong: Record
    for record in consumer:  # wrong: __iter__
        print(record)
    producer.send("orders", b"value")  # wrong: used
