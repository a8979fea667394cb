"""Snapshots become named samples."""

from __future__ import annotations

from oncelog import Producer
from oncelog.observability.metrics import ClientMetrics, Latency
from oncelog.observability.samples import samples
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster


def test_figures_of_a_client_have_names_kinds_and_labels() -> None:
    metrics = ClientMetrics(
        client_id="c",
        connection_count=1,
        connection_creation_total=2,
        connection_failure_total=3,
        metadata_refresh_total=4,
        throttled_response_total=5,
        throttle_seconds_total=6.5,
    )
    found = {sample.name: sample for sample in samples(metrics)}
    assert found["oncelog_client_connection_count"].kind == "gauge"
    assert found["oncelog_client_connection_creation_total"].kind == "counter"
    assert {sample.value for sample in found.values()} == {1, 2, 3, 4, 5, 6.5}
    assert all(sample.labels == {"client_id": "c"} for sample in found.values())


async def test_figures_of_topics_and_latencies_are_told_as_such() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap, entropy=SeededEntropy(1)) as producer:
            await producer.send("t", b"v")
            found = {sample.name: sample for sample in samples(producer.metrics())}
    of_topic = found["oncelog_client_topic_record_total"]
    assert (of_topic.kind, of_topic.value) == ("counter", 1)
    assert of_topic.labels == {"client_id": "oncelog-producer", "topic": "t"}
    latency = found["oncelog_client_request_latency_seconds"]
    assert latency.kind == "histogram"
    assert isinstance(latency.value, Latency)
