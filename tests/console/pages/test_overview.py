"""The first page says what is wrong, with where to look, and what it does not know."""

from __future__ import annotations

from oncelog.admin.results import (
    BrokerDescription,
    ClusterDescription,
    PartitionDescription,
    TopicDescription,
)
from oncelog_console.pages.overview import overview_of
from oncelog_console.snapshot import Fact, Rate, Snapshot
from support.cluster import Cluster
from support.console import Browser


def a_cluster_with(partition: PartitionDescription) -> Snapshot:
    brokers = (BrokerDescription(1, 1, None, {}), BrokerDescription(2, 1, None, {}))
    return Snapshot(
        cluster=Fact(ClusterDescription("c", 1, 9, brokers), 1000),
        topics=Fact((TopicDescription("orders", partitions=(partition,)),), 1000),
        log_dirs=Fact((), 1000),
        min_isr=Fact({"orders": 2}, 1000),
        rates={"orders": Rate(84_000.0, 12e6, (0.0, 84_000.0))},
    ).judged()


def test_what_is_wrong_leads_to_where_to_look() -> None:
    view = overview_of(a_cluster_with(PartitionDescription(0, 1, 5, (1, 2), (1,), ())), 1000)
    assert view.status == "critical"
    wrong = {row["check"]: row["path"] for row in view.wrong}
    assert wrong["under_min_isr"] == "/topics?state=under_min_isr"
    assert (view.under_replicated, view.leaderless, view.records_per_s) == (1, 0, 84_000.0)
    assert '<path class="line"' in str(view.picture)
    healthy = overview_of(a_cluster_with(PartitionDescription(0, 1, 5, (1, 2), (1, 2), ())), 1000)
    assert (healthy.status, healthy.wrong) == ("ok", ())


def test_nothing_unknown_is_shown_as_nought_or_as_healthy() -> None:
    view = overview_of(Snapshot(), 0)
    assert view.status == "unknown"
    assert view.under_replicated is None
    assert view.records_per_s is None
    assert view.events is None


async def test_a_cluster_that_falls_silent_is_not_called_healthy(
    cluster: Cluster, browser: Browser
) -> None:
    await browser.until(lambda seen: seen.status is not None)
    assert "healthy" in (await browser.get("/")).text
    assert (await browser.document("/"))["healthy"] is True
    await cluster.stop_broker(1)
    await browser.until(lambda seen: seen.cluster.error, 60)
    page = (await browser.get("/")).text
    assert "healthy" not in page
    assert "The cluster does not answer" in page
