"""The overview tells of a leader that was killed, and of its return, while one only looks."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from oncelog.testing import AsyncCluster
from support.browser import People
from support.served_console import served_console

CHANGE_MS = 90_000
"""What the console knows is some seconds old, and the page asks every five. On a busy machine an
answer takes long, and a question rests twenty times as long as its answer took."""


async def marked(page: Page) -> None:
    """Leave something in a window that a reload would take away."""
    await page.evaluate("window.neverReloaded = true")


async def is_marked(page: Page) -> bool:
    return bool(await page.evaluate("window.neverReloaded === true"))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_leader_is_killed_and_comes_back(people: People) -> None:
    async with AsyncCluster(3, min_insync_replicas=2) as cluster:
        await cluster.create_topic("orders", partitions=3, replication_factor=2)
        async with served_console(cluster.bootstrap, changes=False) as console:
            person = await people.come(console.origin)
            page = await person.open("/")
            verdict = page.locator(".verdict")
            await expect(verdict).to_contain_text("healthy", timeout=CHANGE_MS)
            await marked(page)
            killed = await cluster.leader("orders")
            await cluster.kill(killed)
            await expect(verdict).to_contain_text("critical", timeout=CHANGE_MS)
            await expect(page.locator("tr.away")).to_contain_text("away")
            await expect(page.locator("body")).to_contain_text("read-only")
            await cluster.start_broker(killed)
            await expect(verdict).to_contain_text("healthy", timeout=CHANGE_MS)
            assert await is_marked(page), "the page was not loaded again"
