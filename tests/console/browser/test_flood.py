"""A window that follows a busy topic stays small and answers, however long it follows."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import CDPSession, Page, expect

from oncelog import Producer
from support.browser import People
from support.seeded_cluster import seeded_cluster
from support.served_console import served_console

ROWS_MAX = 500
BATCH = 2_500
PAUSE_S = 0.05
"""Batches are written in this rhythm: 50,000 records a second, where the machine has room."""
LONG_S = 300.0
GROWTH_MAX = 8 * 1024**2
"""The heap may be larger by so many bytes after the whole time than after a tenth of it."""


async def flood(bootstrap: str) -> None:
    """Write until cancelled."""
    async with Producer(bootstrap, acks=1) as producer:
        written = 0
        while True:
            values = [b"record %d" % number for number in range(written, written + BATCH)]
            await producer.enqueue_many("audit", values=values)
            written += BATCH
            await asyncio.sleep(PAUSE_S)


async def heap(session: CDPSession) -> int:
    """Return the bytes that the page's script holds, without what is garbage."""
    await session.send("HeapProfiler.collectGarbage")
    found: dict[str, int] = await session.send("Runtime.getHeapUsage")
    return int(found["usedSize"])


async def pause_and_go_on(page: Page) -> None:
    """Press the button twice; the page must take both."""
    await page.get_by_role("button", name="pause").click()
    await expect(page.locator("#progress")).to_contain_text("wait")
    await page.get_by_role("button", name="go on").click()
    await expect(page.get_by_role("button", name="pause")).to_be_visible()


@pytest.mark.nightly
@pytest.mark.timeout(900)
async def test_a_flood_fills_no_memory(people: People) -> None:
    async with seeded_cluster(1) as seeded, served_console(seeded.bootstrap) as console:
        person = await people.come(console.origin)
        page = await person.open("/topics/audit/messages?follow=1")
        session = await person.context.new_cdp_session(page)
        writing = asyncio.create_task(flood(seeded.bootstrap))
        try:
            await expect(page.locator("#rows tr")).to_have_count(ROWS_MAX, timeout=60_000)
            await asyncio.sleep(LONG_S / 10)
            early = await heap(session)
            for _ in range(9):
                await asyncio.sleep(LONG_S / 10)
                assert await page.locator("#rows tr").count() <= ROWS_MAX
                await pause_and_go_on(page)
            grown = await heap(session) - early
            assert grown <= GROWTH_MAX, f"{grown:,} bytes more"
            said = await page.locator("#progress").inner_text()
            assert re.search(r"[\d,]+ of [\d,]+ a second", said), said
        finally:
            await page.close()  # before the server whose stream it hears
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
