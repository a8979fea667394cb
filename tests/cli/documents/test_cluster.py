"""Brokers that do not answer stand beside those that do."""

from __future__ import annotations

from oncelog import Admin
from oncelog_cli.documents.cluster import (
    described_cluster,
    described_log_dirs,
    health_of,
    min_insync_replicas,
    snapshot,
    spoken_apis,
)
from oncelog_cli.health import HealthCheck, HealthLimits, Status, check_all
from support.admin_cluster import AdminCluster
from support.cluster import Cluster


async def test_who_does_not_answer_is_named(fake: AdminCluster, asker: Admin) -> None:
    fake.create_topic("t", 2)
    found = await described_cluster(asker)
    assert (found["controller_id"], [row["is_controller"] for row in found["brokers"]]) == (
        1,
        [True, False],
    )
    await fake.brokers[2].stop()
    answer = await described_log_dirs(asker, brokers=[1, 2])
    (directory,) = answer.document["log_dirs"]
    assert (directory["broker_id"], directory["replica_count"]) == (1, 2)
    assert directory["size_bytes"] == sum(row["size_bytes"] for row in directory["replicas"])
    assert [each.item for each in answer.failures] == ["broker 2"]
    answer = await spoken_apis(asker, [1, 2])
    assert {tuple(row["brokers"]) for row in answer.document["apis"]} == {(1,)}
    assert [each.item for each in answer.failures] == ["broker 2"]


async def test_a_look_at_the_whole_cluster(real: Cluster, admin: Admin) -> None:
    await real.create_topic("t", min_insync_replicas=1)
    seen = await snapshot(admin)
    assert [topic.topic for topic in seen.topics] == ["t"]
    assert seen.min_isr == {"t": 1}
    assert await min_insync_replicas(admin, ["t", "gone"]) == {"t": 1}
    document = health_of(check_all(seen, HealthLimits(2, 0, 0)))
    assert (document["healthy"], document["status"]) == (False, "critical")
    brokers = next(row for row in document["checks"] if row["check"] == "brokers")
    assert (brokers["status"], brokers["count"]) == ("critical", 1)
    assert health_of([HealthCheck("disk", Status.OK)])["healthy"] is True
