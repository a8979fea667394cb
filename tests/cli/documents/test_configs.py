"""Settings that cannot be had or set stand beside those that can."""

from __future__ import annotations

from oncelog import Admin
from oncelog_cli.documents.configs import altered_configs, described_configs, resource_label
from support.cluster import Cluster


async def test_settings_and_what_there_is_none_of(real: Cluster, admin: Admin) -> None:
    await real.create_topic("orders", retention_ms=60_000)
    answer = await described_configs(admin, ["orders", "none"])
    (row,) = answer.document["configs"]
    assert (row["resource"], row["key"], row["value"]) == ("topic orders", "retention_ms", "60000")
    assert [each.item for each in answer.failures] == ["none"]
    answer = await described_configs(admin, ["orders"], [1], keys=["segment_bytes"])
    assert [(row["resource"], row["source"]) for row in answer.document["configs"]] == [
        ("topic orders", "default")
    ]
    assert [(each.item, each.message) for each in answer.failures] == [
        ("broker 1", "there is no setting 'segment_bytes' of broker 1")
    ]
    answer = await described_configs(admin, [], [None], every=True)
    assert not answer.failures


async def test_each_is_altered_or_refused_by_itself(real: Cluster, admin: Admin) -> None:
    await real.create_topic("orders")
    entries = {"retention_ms": "5000"}
    plan = await altered_configs(admin, entries, ["orders"], dry_run=True)
    assert plan.document == {
        "dry_run": True,
        "configs": [{"kind": "topic", "name": "orders", "altered": False}],
    }
    answer = await altered_configs(admin, entries, ["orders"], [1])
    topic, broker = answer.document["configs"]
    assert topic == {"kind": "topic", "name": "orders", "altered": True}
    assert (broker["kind"], broker["name"], broker["altered"]) == ("broker", "1", False)
    assert [(each.item, each.entry()["error"]) for each in answer.failures] == [
        ("1", broker["error"])
    ]
    (outcome,) = await admin.describe_configs(topics=["orders"], keys=["retention_ms"])
    assert outcome.settings["retention_ms"].value == "5000"


def test_how_people_call_what_has_settings() -> None:
    assert resource_label("topic", "orders") == "topic orders"
    assert resource_label("broker", "1") == "broker 1"
    assert resource_label("broker", "") == "all brokers"
