"""Transactions that hang are found in every topic, however many there are."""

from __future__ import annotations

from oncelog_console.clients import ClusterClients
from oncelog_console.hanging import hanging_everywhere
from oncelog_console.poller import SLICE_TOPICS
from oncelog_protocol.messages.base import ApiKey
from support.admin_cluster import AdminCluster
from support.cluster import Cluster
from support.hanging import hang


async def test_what_hangs_is_found(cluster: Cluster) -> None:
    clients = ClusterClients(cluster.bootstrap)
    assert (await hanging_everywhere(clients)).document == {"transactions": []}
    await cluster.create_topic("orders")
    hang(cluster, "orders", 0, b"one", producer_id=900)
    (row,) = (await hanging_everywhere(clients)).document["transactions"]
    assert (row["topic"], row["partition"], row["producer_id"]) == ("orders", 0, 900)


async def test_many_topics_are_looked_at_in_parts_with_few_questions() -> None:
    async with AdminCluster(2) as fake:
        for number in range(2 * SLICE_TOPICS + 1):
            fake.create_topic(f"t{number:03}", 1)
        answer = await hanging_everywhere(ClusterClients(fake.bootstrap))
        assert (answer.document, answer.failures) == ({"transactions": []}, [])
        assert fake.count(ApiKey.DESCRIBE_PRODUCERS) >= 3, "one at least for each part"
        assert fake.count(ApiKey.METADATA) < 20, "and not one for each topic"
