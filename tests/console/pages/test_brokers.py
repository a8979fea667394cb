"""Brokers that are alive or away each have a row; what an absent one has is not known, not 0."""

from __future__ import annotations

from oncelog.admin.results import (
    BrokerDescription,
    ClusterDescription,
    LogDirDescription,
    PartitionDescription,
    TopicDescription,
)
from oncelog_console.pages.brokers import broker_rows
from oncelog_console.snapshot import Fact, Snapshot
from support.console import Browser


def test_an_absent_broker_has_a_row_without_figures() -> None:
    alive = BrokerDescription(1, 1, "a", {"client": ("localhost", 9092)})
    partition = PartitionDescription(0, 1, 5, (1, 3), (1,), (3,))
    seen = Snapshot(
        cluster=Fact(ClusterDescription("c", 1, 4, (alive,)), 1000),
        topics=Fact((TopicDescription("t", partitions=(partition,)),), 1000),
        log_dirs=Fact((LogDirDescription(1, "/data", None, 100, 40),), 1000),
        brokers_seen_ms={1: 42_000, 3: 1000},
    )
    here, away = broker_rows(seen, 42_000)
    assert (here.broker_id, here.alive, here.is_controller) == (1, True, True)
    assert (here.leads, here.replicas, here.free_percent) == (1, 1, 40)
    assert (away.broker_id, away.alive, away.silent_ms) == (3, False, 41_000)
    assert (away.replicas, away.out_of_isr) == (1, 1)
    assert away.bytes_held is None
    assert away.free_percent is None


def test_before_anything_is_known_there_is_nothing_to_show() -> None:
    assert broker_rows(Snapshot(), 0) == []


async def test_one_broker_with_its_directories(browser: Browser) -> None:
    listed = await browser.document("/brokers")
    (row,) = listed["brokers"]
    assert listed["_command"] == "cluster describe"
    document = await browser.document(f"/brokers/{row['broker_id']}")
    assert document["_command"] == "log-dirs"
    (directory,) = document["log_dirs"]
    assert directory["path"] in (await browser.get(f"/brokers/{row['broker_id']}")).text
    assert (await browser.get("/brokers/99")).status == 404
