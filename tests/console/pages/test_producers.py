"""Producers are looked at for a topic, some partitions, or one producer everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import Admin, Producer
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.producers import described_producers
from oncelog_cli.group_offsets import Chosen
from oncelog_console.page import BadRequestError
from oncelog_console.pages.producers import PAGE_ROWS, ProducersAsked, producers_of
from oncelog_console.snapshot import Fact, Snapshot
from support.cluster import Cluster
from support.console import Browser, as_json
from support.hanging import hang


def row(partition: int, producer_id: int, begins: int | None = None) -> Any:
    return {
        "topic": "t",
        "partition": partition,
        "producer_id": producer_id,
        "txn_start_offset": begins,
    }


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        (ProducersAsked(), ()),
        (ProducersAsked("t"), ("producers", "describe", "t")),
        (ProducersAsked("t:0,2", True, 7),
         ("producers", "describe", "t:0,2", "--open", "--producer-id", "7")),
        (ProducersAsked("", False, 7),
         ("producers", "describe", ".*", "--regex", "--producer-id", "7")),
    ],
)  # fmt: skip
def test_the_command_shows_the_same(asked: ProducersAsked, command: tuple[str, ...]) -> None:
    assert asked.command == command


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BadRequestError):
        _ = ProducersAsked("t:x").where


def test_open_transactions_come_first_and_have_the_ids_of_their_producers() -> None:
    ids = {"transactions": [{"transactional_id": "pay", "producer_id": 9}]}
    seen = Snapshot(transactions=Fact(Answer(ids), 1))
    answer = Answer({"producers": [row(0, 7), row(1, 9, begins=50)]}, [Failure("t-2", "silent")])
    view = producers_of(ProducersAsked("t"), answer, seen)
    assert [(each.row["producer_id"], each.transactional_id) for each in view.rows] == [
        (9, "pay"),
        (7, None),
    ]
    assert view.failures == (Failure("t-2", "silent"),)


def test_many_producers_have_pages() -> None:
    answer = Answer({"producers": [row(0, number) for number in range(PAGE_ROWS + 1)]})
    view = producers_of(ProducersAsked("t", page=2), answer, Snapshot())
    assert (view.count, view.pages, len(view.rows)) == (PAGE_ROWS + 1, 2, 1)
    beyond = producers_of(ProducersAsked("t", page=99), answer, Snapshot())
    assert (beyond.asked.page, beyond.rows) == (2, view.rows), "it is the last page"


async def test_the_document_is_that_of_the_command(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"one")
    hang(cluster, "orders", 0, b"two", producer_id=900)
    document = await browser.document("/producers?topic=orders")
    answer = await described_producers(admin, Chosen(("orders",)))
    assert document["_command"] == "producers describe"
    assert document["producers"] == as_json(answer.document["producers"])
    assert len(document["producers"]) == 2
    page = (await browser.get("/producers?topic=orders&open=1")).text
    assert '<td class="n">900</td>' in page
    assert "1 row," in page
    assert "$ oncelog producers describe orders --open" in page
    everywhere = await browser.document("/producers?producer_id=900")
    assert [each["producer_id"] for each in everywhere["producers"]] == [900]


async def test_nothing_is_asked_before_something_is_chosen(browser: Browser) -> None:
    page = await browser.get("/producers")
    assert "Choose a topic" in page.text
    assert (await browser.get("/producers", accept="application/json")).status == 406
    assert (await browser.get("/producers?topic=t:x")).status == 400
    assert (await browser.get("/producers?producer_id=x")).status == 400
