"""The search box leads to what has a name."""

from __future__ import annotations

import pytest

from oncelog.admin.results import TopicDescription
from oncelog_cli.documents.answer import Answer
from oncelog_console.pages.find import hits_of, record_path
from oncelog_console.snapshot import Fact, Snapshot
from support.cluster import Cluster
from support.console import Browser


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("orders-3@98,120", "/topics/orders/3/98120"),
        ("a-b-0@7", "/topics/a-b/0/7"),
        ("orders", None),
        ("orders-3", None),
        ("orders-x@1", None),
        ("a/b-0@1", "/topics/a%2Fb/0/1"),
    ],
)
def test_one_record_has_a_name(text: str, path: str | None) -> None:
    assert record_path(text) == path


def test_whole_names_come_first() -> None:
    seen = Snapshot(
        topics=Fact((TopicDescription("orders-old"), TopicDescription("orders")), 1),
        groups=Fact(Answer({"groups": [{"group": "orders"}, {"group": "x"}]}), 1),
        transactions=Fact(Answer({"transactions": [{"transactional_id": "orders-1"}]}), 1),
    )
    assert [(hit.kind, hit.name) for hit in hits_of(seen, "orders")] == [
        ("group", "orders"),
        ("topic", "orders"),
        ("topic", "orders-old"),
        ("transactional id", "orders-1"),
    ]
    assert hits_of(seen, "") == []


async def test_a_name_leads_to_its_page(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("orders")
    await cluster.create_topic("orders-old")
    await browser.until(lambda seen: seen.topic("orders") and seen.topic("orders-old"))
    assert (await browser.get("/find?q=orders")).location == "/topics/orders"
    assert (await browser.get("/find?q=orders-0@1")).location == "/topics/orders/0/1"
    assert (await browser.get("/find?q=1000")).location == "/producers?producer_id=1000"
    assert "2 names have" in (await browser.get("/find?q=order")).text
    assert "Nothing that is known" in (await browser.get("/find?q=none")).text
