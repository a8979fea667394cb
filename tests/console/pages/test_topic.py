"""One topic shows its partitions, settings and readers; what is missing is said."""

from __future__ import annotations

import re

from oncelog import Admin, Producer, TopicPartition
from oncelog_cli.documents.topics import described_topics
from oncelog_console.pages.topic import percent
from support.cluster import Cluster
from support.console import Browser, as_json


def test_where_an_offset_stands() -> None:
    assert [percent(10, end, 110) for end in (10, 60, 109, 110)] == [0, 50, 98, 100]
    assert percent(7, 7, 7) == 100, "an empty log is whole"


async def test_the_document_is_that_of_the_command(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders", retention_ms=60_000)
    await browser.until(lambda seen: seen.topic("orders"))
    for tab, every in (("partitions", False), ("configs", True)):
        document = await browser.document(f"/topics/orders?tab={tab}")
        answer = await described_topics(admin, ["orders"], every_setting=every)
        assert document["topics"] == as_json(answer.document["topics"])
    page = (await browser.get("/topics/orders?tab=configs")).text
    assert "retention_ms" in page
    assert "segment_bytes" in page
    assert "No group has committed" in (await browser.get("/topics/orders?tab=consumers")).text


async def test_an_open_transaction_keeps_the_last_stable_offset_below_the_high_watermark(
    cluster: Cluster, browser: Browser
) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"plain")
    async with Producer(cluster.bootstrap, transactional_id="billing") as producer:
        async with producer.transaction():
            for _ in range(3):
                await producer.send("orders", b"open", partition=0)
            page = await browser.until_page("/topics/orders", "</svg> 4 leads")
            start, stable, high = re.findall(r'<td class="n">([\d,]+)</td>', page)[-3:]
            assert (start, stable, high) == ("0", "1", "4")
            assert '<line class="high" x1="51"' in page
            assert '<line class="stable" x1="13"' in page, "a quarter of the axis"
        await browser.until_page("/topics/orders", '<line class="stable" x1="51"')


async def test_what_does_not_exist_is_not_found(browser: Browser) -> None:
    answered = await browser.get("/topics/none")
    assert answered.status == 404
    assert "none" in answered.text
    assert (await browser.get("/topics/none?tab=sad")).status == 400
    refused = await browser.get("/topics/none", accept="application/json")
    assert refused.document["errors"][0]["error"] == "UnknownTopicOrPartitionError"


async def test_a_group_that_reads_it_is_named(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
    await browser.until(lambda seen: [row["group"] for row in seen.group_rows] == ["billing"])
    assert 'href="/groups/billing"' in (await browser.get("/topics/orders?tab=consumers")).text
