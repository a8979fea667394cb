"""One record is shown whole, in every form, with its batch and its readers."""

from __future__ import annotations

import msgpack

from oncelog import Admin, Producer, Record, TopicPartition
from oncelog_cli.documents.answer import Answer
from oncelog_console.decoding import Form
from oncelog_console.pages.record import (
    HEADERS_MAX,
    command_of,
    readers_of,
    record_view,
)
from oncelog_console.snapshot import Fact, Snapshot
from support.cluster import Cluster
from support.console import Browser
from support.shell import oncelog

ORDER = Record("t", 1, 5, 7, b"k", b'{"a": 1}', (("h", b"v"), ("none", None)))


def test_forms_and_which_one_is_shown() -> None:
    view = record_view(ORDER, "committed", "", [])
    assert view.forms == ("JSON", "text", "hex")
    assert view.value is not None
    assert view.value.name == "JSON"
    chosen = record_view(ORDER, "committed", "hex", [])
    assert chosen.value is not None
    assert chosen.value.text.startswith("00000000  7b 22 61")
    assert record_view(ORDER, "committed", "nonsense", []).value == view.value
    table = Form("table", "id: int64")
    assert record_view(ORDER, "committed", "", [], table).value == table
    assert record_view(ORDER._replace(value=None), "committed", "", []).value is None
    assert [(each.name, each.value) for each in view.headers] == [("h", "v"), ("none", None)]


def test_too_many_headers_are_counted() -> None:
    many = ORDER._replace(headers=(("h", b"v"),) * (HEADERS_MAX + 5))
    view = record_view(many, "committed", "", [])
    assert (len(view.headers), view.header_count) == (HEADERS_MAX, HEADERS_MAX + 5)


def test_what_coordinators_wrote_is_decoded() -> None:
    key = msgpack.packb([1, "g", "t", 0])
    value = msgpack.packb([0, 42, 1, "", 7])
    view = record_view(Record("__consumer_offsets", 0, 0, 0, key, value), "committed", "", [])
    assert view.value is not None
    assert '"offset": 42' in view.value.text


def test_groups_that_have_not_read_it() -> None:
    offsets = [{"topic": "t", "partition": 1, "offset": offset} for offset in (5, 6, None)] + [
        {"topic": "t", "partition": 0, "offset": 0}
    ]
    groups = [{"group": f"g{n}", "offsets": [each]} for n, each in enumerate(offsets)]
    groups.append({"group": "far", "offsets": [{"topic": "t", "partition": 1, "offset": 1}]})
    seen = Snapshot(described_groups=Fact(Answer({"groups": groups})))
    found = readers_of(seen, TopicPartition("t", 1), 5)
    assert [(reader.group, reader.behind) for reader in found] == [("g0", 0), ("far", 4)]
    assert readers_of(Snapshot(), TopicPartition("t", 1), 5) == []


async def test_the_page_of_a_record(cluster: Cluster, browser: Browser, admin: Admin) -> None:
    await cluster.create_topic("orders", partitions=2)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(3):
            await producer.send("orders", b'{"n": %d}' % number, partition=1)
    await admin.alter_group_offsets("billing", {TopicPartition("orders", 1): 1})
    await browser.until(lambda seen: readers_of(seen, TopicPartition("orders", 1), 2))
    text = (await browser.get("/topics/orders/1/2")).text
    assert "&#34;n&#34;: 2" in text
    assert "base offset" in text
    assert "producer id" in text
    assert 'href="/groups/billing"' in text
    assert "7b 22 6e" in (await browser.get("/topics/orders/1/2?as=hex")).text
    found = await browser.follow(await browser.get("/find?q=orders-1@2"))
    assert found.text == text or "orders-1@2" in found.text
    view = record_view(Record("orders", 1, 2, 0, None, b""), "committed", "", [])
    shown = await oncelog(*command_of(view), bootstrap=cluster.bootstrap)
    assert [line["value"] for line in shown.json_lines] == ['{"n": 2}']
    missing = await browser.get("/topics/orders/1/3")
    assert missing.status == 404
    assert "no record is at offset 3" in missing.text
    assert (await browser.get("/topics/orders/9/0")).status == 404
    assert (await browser.get(f"/topics/orders/1/{'9' * 30}")).status == 404


async def test_the_end_of_a_transaction(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap, transactional_id="x") as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"taken back")
        await producer.abort_transaction()
    assert (
        "aborted: read_committed never hands it out"
        in (await browser.get("/topics/orders/0/0")).text
    )
    text = (await browser.get("/topics/orders/0/1")).text
    assert "ABORT of producer" in text
    assert "--print-control-records" in text
