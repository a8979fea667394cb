"""Tests use the files that are shipped for Prometheus and Grafana: rules and queries in a hurry,
and a load that gives every panel something to show."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import yaml

from oncelog import Consumer, Producer
from support.house import ROOT
from support.prometheus import PrometheusServer

__all__ = ["all_alerts", "every_panel_has_data", "hurried_rules", "load", "scrape_config"]

SCRAPE = "300ms"
WINDOW = "3s"
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
DASHBOARD = ROOT / "deploy/grafana/dashboards/oncelog.json"
HURRIED = {
    "OncelogConsumerLagTime": (" > 300", " > 0.5"),
    "OncelogOpenTransaction": (" > 900", " > 0.5"),
    "OncelogTransactionEnding": (" > 60", " > 0.5"),
}
"""Bounds on ages: minutes as shipped."""


def hurried_rules() -> dict[str, Any]:
    """Return the rules as shipped, but for windows and waiting times, which are seconds."""
    document: dict[str, Any] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    for group in document["groups"]:
        group["interval"] = SCRAPE
        for rule in group["rules"]:
            rule.pop("for", None)
            expression = rule["expr"].replace("[15m]", "[60s]")  # a restart takes a while
            rule["expr"] = re.sub(r"\[\d+m\]", f"[{WINDOW}]", expression)
            if rule["alert"] in HURRIED:
                before, after = HURRIED[rule["alert"]]
                assert before in rule["expr"]
                rule["expr"] = rule["expr"].replace(before, after)
    return document


def all_alerts() -> set[str]:
    """Return the names of all rules."""
    document = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    return {rule["alert"] for group in document["groups"] for rule in group["rules"]}


def scrape_config(discovery: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration as shipped, but for its times and whom it scrapes."""
    path = ALERTS.parent / "prometheus.yml"
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["global"] = {"scrape_interval": SCRAPE, "evaluation_interval": SCRAPE}
    document["rule_files"] = ["rules.json"]
    (job,) = document["scrape_configs"]
    del job["static_configs"]
    job.update(discovery)
    return document


def panel_queries() -> list[tuple[str, str]]:
    """Return (panel, query) of the dashboard as it is shipped, its variables chosen as "All"."""
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    chosen = {"$broker": ".*", "$group": ".*", "$__rate_interval": WINDOW}
    found = []
    for panel in document["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"]
            for name, value in chosen.items():
                query = query.replace(name, value)
            assert "$" not in query, query
            found.append((panel["title"], query))
    return found


async def every_panel_has_data(prometheus: PrometheusServer, timeout_s: float) -> None:
    """Wait until every query of the dashboard brings something."""
    missing = dict.fromkeys(panel_queries())
    assert len(missing) > 50

    async def all_have() -> bool:
        for each in list(missing):
            if await prometheus.query(each[1]):
                del missing[each]
        return not missing

    try:
        await prometheus.until(all_have, timeout_s, "every panel has data")
    except AssertionError:
        raise AssertionError(f"panels without data: {list(missing)}") from None


@asynccontextmanager
async def load(bootstrap: str, topic: str) -> AsyncIterator[None]:
    """Run a producer, a transactional one and a group, until the end of the block."""

    async def write() -> None:
        async with Producer(bootstrap) as producer:
            while True:
                await producer.send_many(topic, [b"x" * 100] * 20)
                await asyncio.sleep(0.05)

    async def transact() -> None:
        async with Producer(bootstrap, transactional_id="worker") as producer:
            while True:
                async with producer.transaction() as txn:
                    await txn.send(topic, b"in a transaction")
                await asyncio.sleep(0.2)

    async def read() -> None:
        async with Consumer(
            topic, bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                if record.offset % 20 == 0:
                    await consumer.commit()

    tasks = [asyncio.create_task(each()) for each in (write, transact, read)]
    try:
        yield
        for task in tasks:
            assert not task.done(), task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
