"""All pages are looked at as people see them: light and dark, without script, in their own zone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect

from console.pictures import BYTES_MAX, take
from oncelog_console.pages import PAGES
from support.browser import PHONE, People, inaccessible
from support.console_pages import EXAMPLES, Example, pictures
from support.seeded_cluster import seeded_cluster
from support.served_console import Served, served_console

every_page = pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console() -> AsyncIterator[Served]:
    """Show the seeded cluster, and let it be changed."""
    async with seeded_cluster() as seeded, served_console(seeded.bootstrap) as served:
        yield served


def test_every_page_has_an_example() -> None:
    assert {route.path for route in PAGES} == {example.route for example in EXAMPLES}


@every_page
async def test_anybody_can_use_it(people: People, console: Served, example: Example) -> None:
    """A page keeps the rules of WCAG 2.2 AA that a program can check, in both schemes. A telephone
    shows it without script, and without scrolling to the side."""
    person = await people.come(console.origin)
    page = await example.open(person)
    assert await inaccessible(page) == []
    await page.emulate_media(color_scheme="dark")
    assert await inaccessible(page) == []
    without = await people.come(console.origin, script=False, size=PHONE)
    plain = await example.open(without)
    assert await plain.locator("main h1").inner_text() == await page.locator("main h1").inner_text()
    assert await plain.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


async def test_pictures_of_it_are_small(people: People, console: Served) -> None:
    """One is taken as `make screenshots` takes all of them."""
    example, kind = pictures()["topic-dark.webp"]
    assert 5_000 < len(await take(people, console.origin, example, kind)) <= BYTES_MAX


async def test_times_are_in_the_zone_that_one_chooses(people: People, console: Served) -> None:
    person = await people.come(console.origin, zone="America/New_York")
    page = await person.open("/settings")
    times = page.locator("main time")
    before = await times.all_inner_texts()
    moments = await times.evaluate_all("all => all.map(each => each.dateTime)")
    assert before
    assert all(moment.endswith("Z") for moment in moments)
    await page.get_by_label("Times are shown in").fill("Asia/Tokyo")
    await page.get_by_role("button", name="Take").click()
    await expect(page.locator("header")).to_contain_text("Asia/Tokyo")
    after = await times.all_inner_texts()
    assert len(after) == len(before)
    hours = {text.partition(":")[0][-2:] for text in before}
    assert not hours & {text.partition(":")[0][-2:] for text in after}, "each is nine hours later"


async def test_a_theme_is_kept(people: People, console: Served) -> None:
    person = await people.come(console.origin, scheme="light")
    page = await person.open("/settings")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(colour)
    await page.get_by_label("Theme").select_option("dark")
    await page.get_by_role("button", name="Take").click()
    dark = await page.evaluate(colour)
    assert dark != light
    assert await (await person.open("/topics")).evaluate(colour) == dark


async def test_a_command_is_copied(people: People, console: Served) -> None:
    person = await people.come(console.origin)
    await person.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await person.open("/topics")
    await page.get_by_role("button", name="copy").click()
    await expect(page.get_by_role("button", name="copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == "oncelog topics list"


async def test_a_page_that_is_not_there(people: People, console: Served) -> None:
    person = await people.come(console.origin)
    person.expect("Failed to load resource.*404")
    page = await person.open("/nonsense/<script>")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Not Found")
    await expect(page.locator("main")).to_contain_text("/nonsense/<script>")
