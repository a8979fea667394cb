"""Records are found, linked, followed and read in a browser, and none of them is ever HTML."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from oncelog import Producer
from support.browser import People, inaccessible
from support.seeded_cluster import POISON, Seeded, seeded_cluster
from support.served_console import Served, served_console

FOLLOW = "/topics/audit/messages?follow=1"
LATER_MS = 20_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def seeded() -> AsyncIterator[Seeded]:
    """Start the seeded cluster."""
    async with seeded_cluster(1) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(seeded: Seeded) -> AsyncIterator[Served]:
    """Show it."""
    async with served_console(seeded.bootstrap) as served:
        yield served


async def test_a_record_is_found_and_its_link_shows_the_same_elsewhere(
    people: People, console: Served
) -> None:
    person = await people.come(console.origin)
    page = await person.open("/topics/orders/messages?from=beginning")
    await page.get_by_label("Where").fill('value contains "<script>"')
    await page.get_by_role("button", name="Search").click()
    row = page.locator("#rows tr")
    await expect(row).to_have_count(1)
    await expect(page.locator("#over")).to_contain_text("The whole range was searched")
    link = page.url
    await row.get_by_role("link").click()
    await expect(page.locator("main")).to_contain_text(POISON.decode())
    colleague = await people.come(console.origin, zone="Asia/Tokyo", scheme="dark")
    theirs = await colleague.open(link.removeprefix(console.origin))
    await expect(theirs.locator("#rows tr")).to_have_count(1)
    await expect(theirs.locator("#rows")).to_contain_text("<script>")
    same = await colleague.open(page.url.removeprefix(console.origin))
    assert await same.locator("h1").inner_text() == await page.locator("h1").inner_text()
    assert await same.title() != "taken"


async def test_an_expression_is_checked_while_it_is_typed(people: People, console: Served) -> None:
    person = await people.come(console.origin)
    page = await person.open("/topics/orders/messages")
    await page.get_by_label("Where").press_sequentially("value.status ==")
    await expect(page.locator("#where-said")).to_be_visible()
    before = await page.locator("#where-said").inner_text()
    assert before
    await page.get_by_label("Where").press_sequentially(' "failed"')
    await expect(page.locator("#where-said")).not_to_have_text(before)
    assert await inaccessible(page) == []


async def test_names_and_values_are_text(people: People, console: Served, seeded: Seeded) -> None:
    async with Producer(seeded.bootstrap) as producer:
        await producer.send("audit", b"<img src=x onerror=document.title='taken'>", key=b"<b>k</b>")
    person = await people.come(console.origin)
    page = await person.open("/topics/audit/messages?from=beginning")
    await expect(page.locator("#rows")).to_contain_text("<img src=x onerror=")
    await expect(page.locator("#rows")).to_contain_text("<b>k</b>")
    assert await page.locator("#rows b, #rows img").count() == 0
    assert await page.title() != "taken"


async def test_a_pause_loses_nothing(people: People, console: Served, seeded: Seeded) -> None:
    person = await people.come(console.origin)
    page = await person.open(FOLLOW)
    async with Producer(seeded.bootstrap) as producer:
        await wait_for_row(page, producer, "first")
        await page.get_by_role("button", name="pause").click()
        for number in range(40):
            await producer.send("audit", f"paused-{number}".encode())
        await expect(page.locator("#progress")).to_contain_text("40 wait", timeout=LATER_MS)
        await expect(page.locator("#rows")).not_to_contain_text("paused-")
        await page.get_by_role("button", name="go on").click()
        for number in (0, 17, 39):
            await expect(page.locator("#rows")).to_contain_text(f"paused-{number}")
        shown = await page.locator("#rows tr").all_inner_texts()
        assert len([text for text in shown if "paused-" in text]) == 40


async def wait_for_row(page: Page, producer: Producer, value: str) -> None:
    """Write a record again and again until a page that follows shows it."""
    for _ in range(40):
        await producer.send("audit", value.encode())
        try:
            await expect(page.locator("#rows")).to_contain_text(value, timeout=500)
            return
        except AssertionError:
            continue
    raise AssertionError(f"{value} is not shown")


@pytest.mark.slow
async def test_seven_tabs_follow_and_an_eighth_loads(
    people: People, console: Served, seeded: Seeded
) -> None:
    person = await people.come(console.origin)
    tabs = [await person.open(FOLLOW) for _ in range(7)]
    eighth = await person.open("/topics/orders")
    await expect(eighth.get_by_role("heading", level=1)).to_contain_text("orders")
    async with Producer(seeded.bootstrap) as producer:
        await wait_for_row(tabs[0], producer, "for the first")
        await expect(tabs[6].locator("#over")).to_contain_text("other windows follow")
        await tabs[0].close()
        await tabs[1].close()
        await tabs[2].close()
        await wait_for_row(tabs[6], producer, "for the seventh")
