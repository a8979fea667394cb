"""Records are found, linked, followed and paused by people; whatever they hold is text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from oncelog import Producer
from oncelog.testing import AsyncCluster
from support.browser import People
from support.seeded_cluster import POISON
from support.served_console import Served, served_console
from support.waiting import eventually

HOSTILE = (
    "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
)
ORDERS = 40
SOON_MS = 30_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster() -> AsyncIterator[AsyncCluster]:
    async with AsyncCluster(1) as cluster:
        await cluster.create_topic("orders", partitions=2)
        await cluster.create_topic("live")
        async with Producer(cluster.bootstrap) as producer:
            for number in range(ORDERS):
                value = b'{"id": %d, "status": "%s"}' % (
                    number,
                    b"failed" if number % 9 == 0 else b"ok",
                )
                await producer.send("orders", value, key=b"k", partition=number % 2)
            await producer.send("orders", HOSTILE.encode(), key=HOSTILE.encode(), partition=0)
            await producer.send(
                "orders", POISON, headers=[(HOSTILE, HOSTILE.encode())], partition=1
            )
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(cluster: AsyncCluster) -> AsyncIterator[Served]:
    async with served_console(cluster.bootstrap) as served:
        yield served


async def texts(page: Page) -> list[str]:
    """Return the values of the rows of a page."""
    return await page.locator("#rows td:nth-child(4)").all_inner_texts()


@pytest.mark.slow
async def test_a_record_is_found_and_its_link_shows_the_same_to_another(
    people: People, console: Served
) -> None:
    person = await people.come(console.origin)
    page = await person.open("/topics/orders/messages")
    await page.get_by_label("From").fill("beginning")
    await page.get_by_label("Where").fill('value.status = "failed"')
    await expect(page.locator("#where-said")).to_contain_text("equality is written ==")
    await page.get_by_label("Where").fill('value.status == "failed" and timestamp < now')
    await expect(page.locator("#where-said")).to_have_text("")
    await page.get_by_role("button", name="Search").click()
    await expect(page.locator("#over")).to_have_text(
        "The whole range was searched.", timeout=SOON_MS
    )
    await expect(page.locator("#rows tr")).to_have_count(5)
    await expect(page.locator("#progress")).to_contain_text("5 found")
    found = await texts(page)
    assert all('"failed"' in text for text in found)
    other = await people.come(console.origin)
    seen = await other.open(page.url.removeprefix(console.origin))
    await expect(seen.locator("#rows tr")).to_have_count(5, timeout=SOON_MS)
    assert sorted(await texts(seen)) == sorted(found)
    await page.locator("#rows a").first.click()
    await expect(page.get_by_label("Value", exact=True)).to_contain_text('"status": "failed"')
    other_page = await other.open(page.url.removeprefix(console.origin))
    await expect(other_page.get_by_label("Value", exact=True)).to_contain_text('"status": "failed"')


async def test_no_record_is_a_script(people: People, console: Served) -> None:
    person = await people.come(console.origin)
    page = await person.open("/topics/orders/messages?n=10")
    await expect(page.locator("#rows")).to_contain_text(HOSTILE)
    assert await page.title() != "taken"
    for path in (f"/topics/orders/0/{ORDERS // 2}", f"/topics/orders/1/{ORDERS // 2}"):
        record = await person.open(path)
        await expect(record.locator("main")).to_contain_text("document.title")
        assert await record.title() != "taken"


@pytest.mark.slow
async def test_a_tail_that_is_paused_loses_nothing(
    people: People, console: Served, cluster: AsyncCluster
) -> None:
    person = await people.come(console.origin)
    page = await person.open("/topics/live/messages?follow=1")
    await expect(page.locator("html[data-stream=open]")).to_be_attached()
    await eventually(lambda: console.console.tails.running == 1)
    rows = page.locator("#rows tr")
    async with Producer(cluster.bootstrap) as producer:

        async def write(values: list[str]) -> None:
            for value in values:
                await producer.send("live", value.encode())

        # The stream is open before its reader stands at the end of the topic.
        for attempt in range(100):
            await write([f"knock {attempt}"])
            if await rows.count():
                break
            await page.wait_for_timeout(100)
        await expect(rows.first).to_contain_text("knock", timeout=SOON_MS)
        await write([HOSTILE])
        await expect(page.locator("#rows")).to_contain_text(HOSTILE, timeout=SOON_MS)
        assert await page.title() != "taken"
        before = await rows.count()
        await page.get_by_role("button", name="pause").click()
        await write([f"waits {number}" for number in range(20)])
        await expect(page.locator("#progress")).to_contain_text("20 wait", timeout=SOON_MS)
        assert await rows.count() == before
        await page.get_by_role("button", name="go on").click()
        await expect(rows).to_have_count(before + 20, timeout=SOON_MS)
        newest = (await texts(page))[:20]
        assert newest == [f"waits {number}" for number in reversed(range(20))]
        await expect(page.locator("#progress")).to_contain_text(
            "Nothing comes now.", timeout=SOON_MS
        )
    await page.goto("about:blank")
    await eventually(lambda: console.console.tails.running == 0)


@pytest.mark.slow
async def test_many_tails_leave_room_for_a_page(people: People, console: Served) -> None:
    """A browser has six connections to a place; in two windows more, nothing would load."""
    person = await people.come(console.origin)
    tails = [await person.open("/topics/live/messages?follow=1") for _ in range(7)]
    for page in tails[:4]:
        await expect(page.locator("html[data-stream=open]")).to_be_attached(timeout=SOON_MS)
    for page in tails[4:]:
        await expect(page.locator("#over")).to_contain_text("4 other windows", timeout=SOON_MS)
    last = await person.open("/topics")
    await expect(last.get_by_role("heading", level=1)).to_contain_text("Topics")
    assert console.console.tails.running == 1, "they share one reader"
    await tails[0].close()

    async def follows(page: Page) -> bool:
        said = await page.locator("#over").inner_text()
        return said == "" and await page.locator("html[data-stream=open]").count() == 1

    async with asyncio.timeout(SOON_MS / 1000):
        while not any([await follows(page) for page in tails[4:]]):
            await tails[4].wait_for_timeout(100)
