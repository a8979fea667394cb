"""The page of messages shows the same records at one address, and whatever they hold as text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
import pytest_asyncio

from oncelog import Producer
from oncelog_console.look import BROWSER, Look
from oncelog_console.message_range import BEGINNING, Places, WantedRecords, wanted_of
from oncelog_console.pages.messages import (
    notes_of,
    progress_text,
    row_document,
    tick_document,
)
from oncelog_console.reading import ReadProgress, Row
from oncelog_console.tail import Tick
from support.cluster import Cluster
from support.console import Answered, Browser
from support.shell import oncelog
from support.waiting import eventually

NOON_MS = 1_769_860_800_000
SCRIPT = "<script>alert(1)</script>"
ROW = Row(1, 5, NOON_MS + 7, "k", "v", 1, 1, 0, "committed")


# ------------------------------------------------------------------------------ pure


def test_what_is_not_shown_is_said() -> None:
    wanted = WantedRecords("t", end=Places(((0, 5), (2, 7))))
    assert notes_of(WantedRecords("t"), range(3), 50) == ()
    (missing, few) = notes_of(wanted, range(4), 8)
    assert missing.startswith("without partitions 1, 3")
    assert few == "at most 8 records of each partition are shown"
    assert notes_of(WantedRecords("t", (0,), end=wanted.end), range(4), None) == ()


def test_times_of_rows_are_in_the_zone_of_the_visitor() -> None:
    document = row_document(ROW, Look("Asia/Tokyo"))
    assert (document["time"], document["ms"], document["zone"]) == (
        "2026-01-31 21:00:00",
        ".007",
        "Asia/Tokyo",
    )
    assert row_document(ROW, Look(BROWSER))["zone"] == "browser"
    tick = tick_document(Tick((ROW,), 1, 2), Look())
    assert (tick["found"], tick["arrived"], len(tick["rows"])) == (1, 2, 1)


def test_progress_in_words() -> None:
    assert progress_text(ReadProgress(200, 50, 3, NOON_MS), 1234.5, Look()) == (
        "scanned 50 of 200 (25 %), 1,234 a second, 3 found, last at 2026-01-31 12:00:00"
    )
    assert progress_text(ReadProgress(), 0.0, Look()) == "scanned 0 of 0 (100 %), 0 found"


# ------------------------------------------------------------------------------ over a cluster


@pytest_asyncio.fixture
async def filled(cluster: Cluster) -> AsyncIterator[Cluster]:
    await cluster.create_topic("orders", partitions=2)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(6):
            await producer.send(
                "orders",
                b'{"n": %d}' % number,
                key=b"k%d" % number,
                partition=number % 2,
                timestamp_ms=NOON_MS + number,
            )
        yield cluster


def offsets(answered: Answered) -> list[str]:
    """Return the places of the rows of a page, as they stand there."""
    assert answered.status == 200, answered.text
    return [
        part.partition("</a>")[0].rpartition(">")[2]
        for part in answered.text.split('<td class="n"><a href="/topics/orders/')[1:]
    ]


async def page(browser: Browser, query: str = "") -> Answered:
    """Ask for a page, and go on to its absolute address if it is not."""
    answered = await browser.get(f"/topics/orders/messages?{query}")
    return await browser.follow(answered) if answered.status == 303 else answered


async def test_an_address_is_sent_on_to_one_that_shows_the_same_for_ever(
    filled: Cluster, browser: Browser
) -> None:
    answered = await browser.get("/topics/orders/messages")
    assert answered.status == 303
    address = answered.location
    assert "to=offsets:0=3,1=3" in address
    newest = ["1@2", "0@2", "1@1", "0@1", "1@0", "0@0"]
    assert offsets(await browser.get(address)) == newest
    async with Producer(filled.bootstrap) as producer:
        await producer.send("orders", b"later", partition=0)
    assert offsets(await browser.get(address)) == newest
    assert offsets(await browser.another().get(address)) == newest
    assert offsets(await page(browser))[0] == "0@3"


async def test_what_came_since_a_range_was_chosen_is_said(
    filled: Cluster, browser: Browser
) -> None:
    """Whoever looks at a page, and searches from it later, would miss what came meanwhile."""
    answered = await browser.get("/topics/orders/messages?from=beginning")
    address = answered.location
    assert 'id="later"' not in (await browser.get(address)).text
    async with Producer(filled.bootstrap) as producer:
        await producer.send("orders", b"later", partition=0)
    text = (await browser.get(address)).text
    assert "1 later offset, written since this range was chosen, is not in it" in text
    now = unescape(text.partition('">the same up to now</a>')[0].rpartition('href="')[2])
    assert offsets(await browser.follow(await browser.get(now)))[-1] == "0@3"
    chosen = await browser.get("/topics/orders/messages?p=0&from=beginning&to=offset:2")
    assert 'id="later"' not in chosen.text, "somebody chose that end"


async def test_ranges_partitions_and_how_many(filled: Cluster, browser: Browser) -> None:
    assert offsets(await page(browser, "from=beginning&n=3")) == ["0@0", "1@0", "0@1"]
    assert offsets(await page(browser, "p=1&from=newest:2")) == ["1@2", "1@1"]
    noon = "time:2026-01-31T12:00:00.002Z"
    assert offsets(await page(browser, f"from={noon}&to=offset:2")) == ["0@1", "1@1"]
    relative = await browser.get("/topics/orders/messages?from=time:1h&to=offset:9")
    assert relative.location.startswith("/topics/orders/messages?p=all&from=time:20")


async def test_older_records_are_a_page_away(filled: Cluster, browser: Browser) -> None:
    first = await page(browser, "n=4")
    assert offsets(first) == ["1@2", "0@2", "1@1", "0@1"]
    address = first.text.partition('">older</a>')[0].rpartition('href="')[2]
    older = await browser.get(unescape(address))
    assert offsets(older) == ["1@0", "0@0"]
    assert ">older<" not in older.text


async def test_whoever_wants_json_gets_what_the_command_prints(
    filled: Cluster, browser: Browser
) -> None:
    address = "/topics/orders/messages?p=1&from=beginning&to=offset:9&n=2"
    asked = await browser.get(address, accept="application/json")
    lines = (await browser.follow(asked)).text
    wanted = wanted_of("orders", dict(parse(address)), 0)
    shown = await oncelog(*wanted.command(), bootstrap=filled.bootstrap)
    assert lines == shown.out
    assert len(shown.json_lines) == 2
    one = await browser.get("/topics/orders/1/1", accept="application/json")
    assert (await browser.follow(one)).text == lines.splitlines(keepends=True)[1]


async def test_the_command_prints_the_same(filled: Cluster, browser: Browser) -> None:
    query = "p=1&from=beginning&to=offsets:1=2&n=50&isolation=committed"
    answered = await page(browser, query)
    wanted = WantedRecords("orders", (1,), BEGINNING, Places(((1, 2),)))
    assert "oncelog " + " ".join(wanted.command()) in answered.text
    shown = await oncelog(*wanted.command(), bootstrap=filled.bootstrap)
    printed = [f"{line['partition']}@{line['offset']}" for line in shown.json_lines]
    assert printed == offsets(answered) == ["1@0", "1@1"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from=soon", "write beginning, newest:50"),
        ("n=9999", "is not between 1 and 500"),
        ("where=value+%3D+1", "at character 7: equality is written =="),
        ("where=" + quote(SCRIPT), "&#39;/&#39; means nothing here"),
    ],
)
async def test_mistakes_stand_beside_the_form(
    filled: Cluster, browser: Browser, query: str, words: str
) -> None:
    answered = await browser.get(f"/topics/orders/messages?{query}")
    assert answered.status == 400
    assert words in answered.text
    assert SCRIPT not in answered.text
    assert 'name="where"' in answered.text, "the form is there, to be mended"


async def test_what_does_not_exist(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("orders")
    assert (await browser.get("/topics/none/messages")).status == 404
    answered = await browser.get("/topics/orders/messages?p=7")
    assert answered.status == 404
    assert "there is no 7" in answered.text
    empty = await page(browser)
    assert "No record is in this range" in empty.text


async def test_whatever_records_hold_is_text(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap) as producer:
        hostile = SCRIPT.encode()
        await producer.send("orders", hostile, key=hostile, headers=[(SCRIPT, hostile)])
        await producer.send("orders", "a\u202eb\x00".encode(), key=None)
        await producer.send("orders", None, key=b"gone")
    text = (await page(browser)).text
    assert SCRIPT not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "a\\u202eb\\x00" in text
    assert "none: a tombstone" in text
    record = (await browser.get("/topics/orders/0/0")).text
    assert SCRIPT not in record
    assert record.count("&lt;script&gt;") == 4
    hostile_address = await browser.get(f"/topics/{quote(SCRIPT, safe='')}/messages")
    assert hostile_address.status == 404
    assert SCRIPT not in hostile_address.text


async def test_states_of_records(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap, transactional_id="x") as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"taken back")
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send("orders", b"open")
        text = (await page(browser, "isolation=all")).text
        assert '<tr class="state-aborted">' in text
        assert '<tr class="state-open">' in text
        assert '<tr class="state-abort">' in text
        assert "No record is in this range" in (await page(browser)).text
        await producer.abort_transaction()


# ------------------------------------------------------------------------------ searches


@pytest.mark.slow
async def test_a_search_shows_what_it_finds(filled: Cluster, browser: Browser) -> None:
    address = f"where={quote('value.n >= 4 and timestamp < now')}&from=beginning"
    first = await browser.get(f"/topics/orders/messages?{address}")
    assert "now" not in first.location
    wanted = wanted_of("orders", dict(parse(first.location)), 0)
    session = browser.cookies["oncelog_session"]
    search = None
    await browser.get(first.location)
    search = browser.console.searches.find(session, wanted)
    assert search is not None
    await search.until_done(30)
    answered = await browser.get(first.location)
    assert sorted(offsets(answered)) == ["0@2", "1@2"]
    assert "The whole range was searched." in answered.text
    assert "scanned 6 of 6" in answered.text
    lines = await browser.get(first.location.replace("/messages?", "/messages.jsonl?"))
    assert lines.headers["content-disposition"] == 'attachment; filename="orders.jsonl"'
    values = sorted(json.loads(line)["value"] for line in lines.text.splitlines())
    assert values == ['{"n": 4}', '{"n": 5}']
    events = await stream(browser, first.location.replace("/messages?", "/messages/found?"))
    assert [name for name, _ in events][-1] == "over"
    rows = [row for name, data in events if name == "found" for row in data["rows"]]
    assert sorted(row["value"] for row in rows) == values
    behind = first.location.replace("/messages?", "/messages/found?") + "&known=2"
    assert not any(data.get("rows") for _, data in await stream(browser, behind))
    browser.console.searches.forget(session, wanted)
    ((_, over),) = await stream(browser, behind)
    assert (over["state"], "forgotten" in over["failure"]) == ("stopped", True)


@pytest.mark.slow
async def test_a_search_is_stopped_and_begun_again(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"a" * 60 + b"b")
    where = quote("value matches '^(a+)+$'")
    query = f"p=all&from=beginning&to=offset:1&where={where}"
    running = await page(browser, query)
    assert "The search goes on." in running.text
    assert 'id="stop"' in running.text
    form = dict(parse("?" + query))
    stopped = await browser.follow(await browser.post("/topics/orders/messages/stop", form))
    assert "Stopped." in stopped.text
    await eventually(lambda: browser.console.searches.running == 0)
    again = await browser.post("/topics/orders/messages/stop", {**form, "again": "1"})
    assert "The search goes on." in (await browser.follow(again)).text


@pytest.mark.slow
async def test_a_third_search_is_refused_with_words(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("orders", b"a" * 60 + b"b")
    texts = []
    for number in range(3):
        where = quote(f"value matches '^(a+)+{number}$'")
        texts.append((await page(browser, f"from=beginning&where={where}")).text)
    assert "The search goes on." in texts[1]
    assert "2 searches are running" in texts[2]
    found = f"/topics/orders/messages/found?from=beginning&to=offset:1&where={where}"
    assert (await stream(browser, found))[-1][1]["state"] == "failed"
    lines = await browser.get(f"/topics/orders/messages.jsonl?from=beginning&where={where}")
    assert lines.status == 400


async def test_an_expression_is_checked_while_it_is_typed(browser: Browser) -> None:
    wrong = await browser.get("/where?where=" + quote("valeu == 1"))
    assert "at character 1: &#39;valeu&#39; is not known; did you mean" in wrong.text
    assert "problem" in wrong.text
    assert "problem" not in (await browser.get("/where?where=value+%3D%3D+1")).text
    assert "<html" not in wrong.text, "it is a part of a page"


# ------------------------------------------------------------------------------ following


async def test_what_comes_is_streamed(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("orders")
    shown = await browser.get("/topics/orders/messages?follow=1")
    assert 'data-state="follow"' in shown.text
    assert "consume orders --json" in shown.text
    async with Producer(cluster.bootstrap) as producer:
        async for name, data in browser.events("/topics/orders/messages/live?p=all"):
            assert name == "tick"
            if not data["arrived"]:
                await producer.send("orders", SCRIPT.encode())
                continue
            assert [row["value"] for row in data["rows"]] == [SCRIPT]
            break
    await eventually(lambda: browser.console.tails.running == 0)
    events = await stream(browser, "/topics/none/messages/live")
    assert "none" in events[-1][1]["failure"]


def parse(address: str) -> list[tuple[str, str]]:
    """Return the parameters of an address."""
    return parse_qsl(address.partition("?")[2], keep_blank_values=True)


async def stream(browser: Browser, address: str) -> list[tuple[str, Any]]:
    """Return all events of a stream that ends."""
    async with asyncio.timeout(30):
        return [event async for event in browser.events(address)]
