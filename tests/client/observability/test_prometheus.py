"""Clients show figures on a page for Prometheus, whose own parser reads it back."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from oncelog import Consumer, Producer
from oncelog.observability.prometheus import ClientCollector
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster


def figures(registry: CollectorRegistry) -> dict[tuple[str, str, str], float]:
    """Return values by (name, client, topic)."""
    return {
        (s.name, s.labels["client_id"], s.labels.get("topic", "")): s.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for s in family.samples
        if "le" not in s.labels
    }


async def test_two_clients_share_families_and_have_their_own_labels() -> None:
    registry = CollectorRegistry()
    collector = ClientCollector()
    registry.register(collector)
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with (
            Producer(cluster.bootstrap, client_id="p1", entropy=SeededEntropy(1)) as first,
            Producer(cluster.bootstrap, client_id="p2", entropy=SeededEntropy(2)) as second,
            Consumer(
                "t",
                bootstrap_servers=cluster.bootstrap,
                client_id="c",
                auto_offset_reset="earliest",
            ) as consumer,
        ):
            for client in (first, second, consumer):
                collector.add(client)
            await first.send("t", b"v")
            await second.send_many("t", [b"v"] * 4)
            await consumer.getone()
            found = figures(registry)
            assert found["oncelog_client_record_send_total", "p1", ""] == 1
            assert found["oncelog_client_record_send_total", "p2", ""] == 4
            assert found["oncelog_client_topic_record_total", "p2", "t"] == 4
            assert found["oncelog_client_records_consumed_total", "c", ""] == 1
            assert found["oncelog_client_records_lag", "c", "t"] == 4
            assert found["oncelog_client_delivery_latency_seconds_count", "p2", ""] == 1
            collector.remove(second)
            assert not any(client == "p2" for _, client, _ in figures(registry))


async def test_buckets_are_cumulative() -> None:
    registry = CollectorRegistry()
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap, entropy=SeededEntropy(1)) as producer:
            registry.register(ClientCollector(producer))
            for _ in range(3):
                await producer.send("t", b"v")
            page = generate_latest(registry).decode()
    buckets = [
        sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "oncelog_client_request_latency_seconds_bucket"
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 3
