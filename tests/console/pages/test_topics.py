"""Topics are filtered, sorted and shown a page at a time, and say what the command says."""

from __future__ import annotations

import pytest

from oncelog import Admin
from oncelog_cli.documents.topics import listed_topics
from oncelog_console.page import BadRequestError
from oncelog_console.pages.topics import PAGE_ROWS, filter_of
from support.cluster import Cluster
from support.console import Browser, as_json


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ({}, ("topics", "list")),
        ({"q": "ord"}, ("topics", "list", ".*ord.*", "--regex")),
        ({"q": "/o.d/"}, ("topics", "list", ".*(?:o.d).*", "--regex")),
        (
            {"state": "leaderless", "internal": "1"},
            ("topics", "list", "--internal", "--unavailable"),
        ),
    ],
)
def test_the_command_lists_the_same(query: dict[str, str], command: tuple[str, ...]) -> None:
    assert filter_of(query, 1).command == command


@pytest.mark.parametrize(
    "query", [{"state": "sad"}, {"sort": "colour"}, {"q": "/(/"}, {"q": "x" * 300}]
)
def test_what_cannot_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        filter_of(query, 1)


async def test_the_document_is_that_of_the_command(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    for name in ("orders", "payments"):
        await cluster.create_topic(name)
    await browser.until(
        lambda seen: seen.topic("payments") and "payments" in (seen.min_isr.value or {})
    )
    document = await browser.document("/topics?q=ord")
    answer = await listed_topics(admin, [".*ord.*"], regex=True)
    assert document["_command"] == "topics list"
    assert document["topics"] == as_json(answer.document["topics"])
    page = await browser.get("/topics?q=ord")
    assert "orders" in page.text
    assert "payments" not in page.text
    assert "$ oncelog topics list &#39;.*ord.*&#39; --regex" in page.text


async def test_no_topic_and_none_that_fits(browser: Browser) -> None:
    assert "oncelog topics create NAME" in (await browser.get("/topics")).text
    assert "No topic fits" in (await browser.get("/topics?q=none")).text
    assert (await browser.get("/topics?state=sad")).status == 400


@pytest.mark.slow
async def test_many_topics_have_pages(cluster: Cluster, browser: Browser, admin: Admin) -> None:
    names = [f"t{number:03d}" for number in range(PAGE_ROWS + 5)]
    await admin.create_topics(names)
    await browser.until(lambda seen: len(seen.topic_list) >= len(names))
    first, second = await browser.get("/topics"), await browser.get("/topics?page=2")
    assert names[0] in first.text
    assert names[-1] not in first.text
    assert names[-1] in second.text
    whole = await browser.get("/topics?all=1")
    assert all(name in whole.text for name in names)
    largest_first = await browser.get("/topics?sort=-topic")
    assert names[-1] in largest_first.text
