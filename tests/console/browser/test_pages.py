"""All pages are looked at as people see them: light and dark, without script, in their own zone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from console.pictures import BYTES_MAX, take
from oncelog_console.event_lanes import WIDTH
from oncelog_console.pages import PAGES
from support.browser import PHONE, People, Person, inaccessible
from support.console_pages import EXAMPLES, Example, pictures
from support.seeded_cluster import seeded_cluster
from support.served_console import Served, served_console

every_page = pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console() -> AsyncIterator[Served]:
    """Show the seeded cluster, and let it be changed."""
    async with seeded_cluster() as seeded, served_console(seeded.bootstrap) as served:
        yield served


@dataclass(frozen=True)
class Visitors:
    """They look at one page after the other: at a desk, and on a telephone without script."""

    desk: Person
    phone: Person


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def visitors(browser: Browser, console: Served) -> AsyncIterator[Visitors]:
    """Have them come; each test tells what they complained about."""
    people = People(browser)
    desk = await people.come(console.origin)
    phone = await people.come(console.origin, script=False, size=PHONE)
    yield Visitors(desk, phone)
    await people.leave()


def test_every_page_has_an_example() -> None:
    assert {route.path for route in PAGES} == {example.route for example in EXAMPLES}


@every_page
async def test_anybody_can_use_it(visitors: Visitors, example: Example) -> None:
    """A page keeps the rules of WCAG 2.2 AA that a program can check, in both schemes. A telephone
    shows it without script, and without scrolling to the side."""
    page = await example.open(visitors.desk)
    assert await inaccessible(page) == []
    await page.emulate_media(color_scheme="dark")
    assert await inaccessible(page, colours_alone=True) == []
    plain = await example.open(visitors.phone)
    assert await plain.locator("main h1").inner_text() == await page.locator("main h1").inner_text()
    assert await plain.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    for person in (visitors.desk, visitors.phone):
        assert person.unexpected == []
        await person.close_windows()


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


ASKS_ANEW = """() => {
  let asks = false;
  document.addEventListener("htmx:beforeRequest", () => { asks = true; }, { once: true });
  htmx.trigger("#main", "refresh");
  return asks;
}"""
"""It has the page refresh itself, and says whether it asks the server."""


@dataclass(frozen=True)
class Lanes:
    """It is where the picture of events lies in a window: a mouse drags over its axis."""

    page: Page
    left: float
    right: float
    height: float

    async def drag(self, begin: float, end: float) -> None:
        """Press the mouse at a share of the axis, and go to another one."""
        mouse = self.page.mouse
        await mouse.move(self.left + (self.right - self.left) * begin, self.height)
        await mouse.down()
        await mouse.move(self.left + (self.right - self.left) * end, self.height, steps=5)


async def lanes_of(page: Page) -> Lanes:
    """Return where the axis of events lies in a window."""
    picture = page.locator("svg.lanes")
    box = await picture.bounding_box()
    assert box is not None
    told = [float(await picture.get_attribute(f"data-{side}") or "") for side in ("left", "right")]
    left, right = (box["x"] + box["width"] * each / WIDTH for each in told)
    return Lanes(page, left, right, box["y"] + 10)


async def test_a_part_of_the_time_is_chosen_by_dragging(people: People, console: Served) -> None:
    person = await people.come(console.origin)
    page = await person.open("/events?kind=leader&kind=isr&page=1")
    moments = page.locator("main tbody time")
    before = [await each.get_attribute("datetime") or "" for each in await moments.all()]
    lanes = await lanes_of(page)
    await lanes.drag(0.7, 0.2)
    await expect(page.locator("svg.lanes rect.range")).to_be_visible()
    await expect(page.locator("figure output")).to_contain_text("Let go to see this part")
    await page.mouse.up()
    await page.wait_for_url("**/events?*since=*")
    asked = parse_qs(urlsplit(page.url).query)
    assert asked["kind"] == ["leader", "isr"], "the rest of the filter is kept"
    (since,), (until,) = asked["since"], asked["until"]
    shown = [await each.get_attribute("datetime") or "" for each in await moments.all()]
    assert shown == [each for each in before if since <= each < until]
    assert 0 < len(shown) < len(before)
    assert await page.get_by_label("since").input_value() == since
    await page.get_by_role("link", name="all of the time").click()
    await expect(moments).to_have_count(len(before))


async def test_escape_and_a_click_choose_no_part_of_the_time(
    people: People, console: Served
) -> None:
    person = await people.come(console.origin)
    page = await person.open("/events")
    lanes = await lanes_of(page)
    part = page.locator("svg.lanes rect.range")
    await lanes.drag(0.2, 0.7)
    await expect(part).to_be_visible()
    assert not await page.evaluate(ASKS_ANEW), "a refresh would take the part away"
    await page.keyboard.press("Escape")
    await expect(part).to_have_count(0)
    await expect(page.locator("figure output")).to_be_empty()
    await page.mouse.up()
    await lanes.drag(0.5, 0.5)
    await page.mouse.up()
    await expect(part).to_have_count(0)
    assert page.url == f"{console.origin}/events"
    async with page.expect_response(
        lambda answer: answer.request.headers.get("hx-target") == "main"
    ):
        await page.evaluate(ASKS_ANEW)


async def test_figures_are_read_off_a_chart_by_mouse_and_keyboard(
    people: People, console: Served
) -> None:
    person = await people.come(console.origin)
    page = await person.open("/groups/billing?span=15m")
    chart = page.locator("svg.chart").first
    await expect(chart).to_be_visible()
    read = page.locator("figure output").first
    await chart.hover()
    await expect(read).to_contain_text("UTC: ")
    by_mouse = await read.inner_text()
    await chart.focus()
    await page.keyboard.press("ArrowLeft")
    await expect(read).not_to_have_text(by_mouse)
    await expect(page.locator("line.hover")).to_have_count(1)


async def test_a_page_that_is_not_there(people: People, console: Served) -> None:
    person = await people.come(console.origin)
    person.expect("Failed to load resource.*404")
    page = await person.open("/nonsense/<script>")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Not Found")
    await expect(page.locator("main")).to_contain_text("/nonsense/<script>")
