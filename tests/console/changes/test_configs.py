"""Settings are altered after the brokers have checked them, and not when they have changed."""

from __future__ import annotations

import pytest

from oncelog import Admin
from oncelog_console.changes.change import FormError, RefusedError
from oncelog_console.plans import PlanError
from support.changes import Workshop
from support.cluster import Cluster


async def values(admin: Admin, topic: str) -> dict[str, str | None]:
    (outcome,) = await admin.describe_configs(topics=[topic])
    return {key: each.value for key, each in outcome.settings.items() if each.source == "topic"}


async def test_settings_of_a_topic(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders", retention_ms=60_000)
    form = {"of": "topic", "name": "orders", "set": "segment_ms=90000", "delete": "retention_ms"}
    plan = await shop.plan("alter-configs", **form)
    (table,) = plan.seen.tables
    first, second = table.rows
    assert (first["key"], first["after"], first["source"]) == ("segment_ms", "90000", "default")
    assert (second["before"], second["after"]) == ("60000", "what holds without it")
    assert second["documentation"]
    assert await values(admin, "orders") == {"retention_ms": "60000"}, "only checked"
    await shop.carry_out(plan)
    await shop.arrives(plan)
    assert await values(admin, "orders") == {"segment_ms": "90000"}


async def test_the_command_alters_the_same(shop: Workshop, cluster: Cluster, admin: Admin) -> None:
    await cluster.create_topic("orders", retention_ms=60_000)
    form = {"of": "topic", "name": "orders", "set": "segment_ms=90000", "delete": "retention_ms"}
    assert (await shop.by_hand(await shop.plan("alter-configs", **form))).code == 0
    assert await values(admin, "orders") == {"segment_ms": "90000"}


@pytest.mark.parametrize("of", ["broker", "all"])
async def test_settings_of_brokers(shop: Workshop, admin: Admin, of: str) -> None:
    name = "1" if of == "broker" else ""
    form = {"of": of, "name": name, "set": "log_level=warning"}
    plan = await shop.plan("alter-configs", **form)
    await shop.carry_out(plan)
    await shop.arrives(plan)
    (outcome,) = await admin.describe_configs(brokers=[1], keys=["log_level"])
    assert outcome.settings["log_level"].value == "warning"
    back = await shop.plan("alter-configs", of=of, name=name, delete="log_level")
    await shop.carry_out(back)
    await shop.arrives(back)


async def test_what_brokers_refuse_is_not_planned(shop: Workshop, cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    for wrong in ("retention_ms=soon", "no_such_setting=1"):
        with pytest.raises(RefusedError):
            await shop.plan("alter-configs", of="topic", name="orders", set=wrong)
    with pytest.raises(RefusedError, match="restart"):
        await shop.plan("alter-configs", of="all", set="log_dirs=/tmp")


async def test_a_value_that_has_changed_voids_the_plan(
    shop: Workshop, cluster: Cluster, admin: Admin
) -> None:
    await cluster.create_topic("orders", retention_ms=60_000)
    plan = await shop.plan("alter-configs", of="topic", name="orders", set="retention_ms=1000")
    (await admin.alter_configs({"orders": {"retention_ms": "70000"}})).raise_for_errors()
    with pytest.raises(PlanError, match="the value of retention_ms was 60000, and is 70000 now"):
        await shop.carry_out(plan)
    assert await values(admin, "orders") == {"retention_ms": "70000"}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"of": "topic", "name": "orders"}, "say which settings"),
        ({"of": "topic", "set": "a=1"}, "a name is needed"),
        ({"of": "topic", "name": "__consumer_offsets", "set": "a=1"}, "only shows it"),
        ({"of": "broker", "set": "a=1"}, "the id of a broker"),
        ({"of": "broker", "name": "x", "set": "a=1"}, "is no number"),
        ({"of": "all", "name": "1", "set": "a=1"}, "leave it empty"),
        ({"of": "all", "set": "a=1\na=2"}, "given twice"),
        ({"of": "all", "set": "a=1", "delete": "a"}, "set and deleted at once"),
    ],
)
async def test_forms(shop: Workshop, form: dict[str, str], words: str) -> None:
    with pytest.raises(FormError, match=words):
        await shop.plan("alter-configs", **form)
