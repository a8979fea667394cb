"""It is a small cluster as people have it: topics with records, groups that read, transactions.

Its contents are always the same, so that pages that show it can be compared, and pictured.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog.testing import AsyncCluster
from oncelog_runtime.clock import SystemWallClock
from support.happened import happened

__all__ = ["Seeded", "seeded_cluster"]

ORDERS = 120
PARTITIONS = 6
POISON = b'{"id": 77, "status": "failed", "amount": <script>document.title = "taken"</script>}'
"""A value that is no JSON, and would be a script if a page took it for HTML."""
STATUSES = ("new", "paid", "shipped", "failed")


@dataclass(frozen=True)
class Seeded:
    """The cluster is there, with a reader that goes on and a transaction that is open."""

    cluster: AsyncCluster
    admin: Admin

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap


def order(number: int) -> bytes:
    """Return an order, as JSON."""
    status = STATUSES[number % len(STATUSES)]
    item = {"sku": f"book-{number % 9}", "pieces": number % 3 + 1}
    document = {"id": number, "status": status, "amount": number * 7 % 90 + 10, "items": [item]}
    return json.dumps(document).encode()


@asynccontextmanager
async def seeded_cluster(brokers: int = 3) -> AsyncIterator[Seeded]:
    """Start the cluster and fill it."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(AsyncCluster(brokers))
        replicas = min(brokers, 3)
        for topic, partitions in (("orders", PARTITIONS), ("payments", 3), ("audit", 1)):
            await cluster.create_topic(topic, partitions=partitions, replication_factor=replicas)
        tell_a_story(cluster)
        await write_orders(cluster.bootstrap)
        await read_some(cluster.bootstrap)
        await write_payments(cluster.bootstrap, stack)
        reader = Consumer("orders", bootstrap_servers=cluster.bootstrap, group_id="shipping",
                          auto_offset_reset="earliest")  # fmt: skip
        await stack.enter_async_context(reader)
        await reader.getmany(timeout_ms=5_000, max_records=10)
        await reader.commit()
        admin = await stack.enter_async_context(Admin(cluster.bootstrap))
        yield Seeded(cluster, admin)


STORY: tuple[tuple[int, int, int, str, dict[str, Any]], ...] = (
    (900, 1, logging.INFO, "controller_elected", {"controller_epoch": 1}),
    (890, 1, logging.INFO, "broker_serves", {}),
    (889, 2, logging.INFO, "broker_serves", {}),
    (888, 3, logging.INFO, "broker_serves", {}),
    (870, 1, logging.INFO, "topic_created", {"topic": "orders", "partitions": PARTITIONS}),
    (860, 1, logging.INFO, "topic_created", {"topic": "payments", "partitions": 3}),
    (850, 3, logging.INFO, "leader_began", {"partition": "orders-3", "leader_epoch": 0}),
    (420, 1, logging.WARNING, "broker_suspected", {"broker_id": 3}),
    (419, 1, logging.INFO, "leader_changed",
     {"partition": "orders-3", "before": 3, "leader": 2, "leader_epoch": 1, "isr": [1, 2]}),
    (418, 2, logging.INFO, "leader_began", {"partition": "orders-3", "leader_epoch": 1}),
    (410, 2, logging.INFO, "isr_changed",
     {"partition": "payments-1", "before": [1, 2, 3], "after": [1, 2]}),
    (300, 3, logging.INFO, "broker_serves", {}),
    (290, 2, logging.INFO, "isr_changed",
     {"partition": "payments-1", "before": [1, 2], "after": [1, 2, 3]}),
    (200, 3, logging.INFO, "leader_began", {"partition": "orders-3", "leader_epoch": 4}),
    (90, 1, logging.INFO, "group_generation_began", {"group": "billing", "generation": 2}),
)  # fmt: skip
"""So many seconds ago, where, how bad, what, and with which fields."""


def tell_a_story(cluster: AsyncCluster) -> None:
    """Let brokers remember what has happened: those for tests have nobody who records it."""
    histories = {broker.broker_id: broker.events for broker in cluster.core.running()}
    now_ms = SystemWallClock().now_ms()
    for ago_s, broker_id, level, name, fields in STORY:
        if broker_id in histories:
            histories[broker_id].add(happened(name, now_ms - ago_s * 1000, level, **fields))


async def write_orders(bootstrap: str) -> None:
    """Write orders, and one value that nobody can read."""
    async with Producer(bootstrap) as producer:
        for number in range(ORDERS):
            await producer.send(
                "orders",
                order(number),
                key=f"customer-{number % 17}".encode(),
                partition=number % PARTITIONS,
                headers=[("trace", f"{number:08x}".encode())],
            )
        await producer.send("orders", POISON, key=b"customer-7", partition=3)
        await producer.send("audit", b"a page was looked at")


async def read_some(bootstrap: str) -> None:
    """Have a group that has read a part, and has no members now."""
    async with Admin(bootstrap) as admin:
        await admin.alter_group_offsets(
            "billing", {TopicPartition("orders", each): 10 for each in range(PARTITIONS)}
        )


async def write_payments(bootstrap: str, stack: AsyncExitStack) -> None:
    """Write payments in transactions: one committed, one aborted, one that stays open; and a
    group that reads them."""
    producer = await stack.enter_async_context(Producer(bootstrap, transactional_id="payments-1"))
    async with producer.transaction():
        for number in range(9):
            await producer.send("payments", order(number), partition=number % 3)
    await producer.begin_transaction()
    await producer.send("payments", b'{"id": 9, "status": "refused"}', partition=0)
    await producer.abort_transaction()
    await producer.begin_transaction()
    await producer.send("payments", b'{"id": 10, "status": "new"}', partition=1)
    await producer.flush()
    async with Admin(bootstrap) as admin:  # It waits for the end of what is open.
        await admin.alter_group_offsets("settlement", {TopicPartition("payments", 1): 4})
