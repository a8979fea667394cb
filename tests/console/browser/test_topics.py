"""Two thousand topics are in one list, and the one that is meant is found while typing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Response, expect

from oncelog import Admin, NewTopic
from oncelog.testing import AsyncCluster
from support.browser import People
from support.served_console import Served, served_console

COUNT = 2_000
PART = 250
"""So many are made by one call: it has a deadline, and other tests may have the machine."""
LATER_MS = 30_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console() -> AsyncIterator[Served]:
    """Make the topics."""
    async with AsyncCluster() as cluster, Admin(cluster.bootstrap) as admin:
        names = [f"topic-{number:04}" for number in range(COUNT)]
        for first in range(0, COUNT, PART):
            part = [NewTopic(name, 1, 1) for name in names[first : first + PART]]
            outcomes = await admin.create_topics(part)
            assert not [each for each in outcomes if each.error]
        async with served_console(cluster.bootstrap) as served:
            yield served


def refreshes_all(answer: Response) -> bool:
    return answer.request.headers.get("hx-target") == "main"


async def test_a_list_is_filtered_while_typing(people: People, console: Served) -> None:
    person = await people.come(console.origin)
    page = await person.open("/topics")
    rows = page.locator("#list tbody tr")
    await expect(rows).to_have_count(100)
    await expect(page.locator("#list")).to_contain_text("1 to 100 of 2,000")
    await page.get_by_label("Name or /regex/").press_sequentially("199")
    await expect(rows).to_have_count(12)
    await expect(page.locator("#list")).to_contain_text("1 to 12 of 12")
    assert "q=199" in page.url, "the address is the whole state"
    other = await people.come(console.origin)
    same = await other.open(page.url.removeprefix(console.origin))
    await expect(same.locator("#list tbody tr")).to_have_count(12)


async def test_a_page_that_refreshes_itself_takes_nothing_away(
    people: People, console: Served
) -> None:
    person = await people.come(console.origin)
    page = await person.open("/topics")
    await page.get_by_label("Name or /regex/").fill("199")
    await expect(page.locator("#list tbody tr")).to_have_count(12)
    link = page.get_by_role("link", name="topic-1993")
    await link.focus()
    async with page.expect_response(refreshes_all):
        await page.evaluate("htmx.trigger('#main', 'refresh')")
    await expect(link).to_be_focused()
    await expect(page.locator("#list tbody tr")).to_have_count(12)


async def test_all_are_on_one_page(people: People, console: Served) -> None:
    person = await people.come(console.origin)
    page = await person.open("/topics")
    await page.get_by_role("link", name="all on one page").click()
    await expect(page.locator("#list tbody tr")).to_have_count(COUNT, timeout=LATER_MS)


async def test_a_list_is_leafed_through_and_sorted_without_script(
    people: People, console: Served
) -> None:
    person = await people.come(console.origin, script=False)
    page = await person.open("/topics")
    await page.get_by_role("link", name="next").click()
    await expect(page.locator("#list")).to_contain_text("101 to 200 of 2,000")
    await page.get_by_role("link", name="Topic", exact=True).click()
    await expect(page.locator("#list tbody tr").first).to_contain_text("topic-1999")


async def test_a_topic_is_found_by_the_search_of_every_page(
    people: People, console: Served
) -> None:
    person = await people.come(console.origin)
    page = await person.open("/brokers")
    await page.get_by_role("searchbox", name="Find a topic").fill("topic-0777")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("topic-0777")
    assert page.url == f"{console.origin}/topics/topic-0777"
