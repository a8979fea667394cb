"""Single records are read at offsets; what is not there in time is left out."""

from __future__ import annotations

from oncelog import Admin, Producer, TopicPartition
from oncelog_console.clients import ClusterClients
from oncelog_console.single_records import first_records
from support.cluster import Cluster

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


async def test_records_at_offsets(cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("t", partitions=3)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(5):
            await producer.send("t", b"%d" % number, partition=number % 2)
    await admin.delete_records({T0: 1})
    clients = ClusterClients(cluster.bootstrap)
    found = await first_records(clients, {T0: 1, T1: 0})
    assert {tp: record.value for tp, record in found.items()} == {T0: b"2", T1: b"1"}
    found = await first_records(clients, {T0: 2, T1: 2, T2: 0}, within_s=0.5)
    assert {tp: record.value for tp, record in found.items()} == {T0: b"4"}, "T1 ends at 2"
    assert await first_records(clients, {}) == {}


async def test_nobody_sees_what_is_not_committed(cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("t")
    clients = ClusterClients(cluster.bootstrap)
    async with Producer(cluster.bootstrap, transactional_id="x") as producer:
        await producer.begin_transaction()
        await producer.send("t", b"open")
        assert await first_records(clients, {T0: 0}, within_s=0.5) == {}
        await producer.abort_transaction()


async def test_a_topic_that_is_not_there_has_no_records(cluster: Cluster) -> None:
    clients = ClusterClients(cluster.bootstrap)
    assert await first_records(clients, {T0: 0}, within_s=0.5) == {}
